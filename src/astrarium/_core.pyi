"""
Compiled core of Astrarium: private, without a compatibility promise. Use the astrarium package.
"""
