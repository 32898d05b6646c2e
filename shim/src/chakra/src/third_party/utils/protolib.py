"""Length-delimited messages in files, plain or gzip: openFileRd, decodeMessage, encodeMessage."""

import gzip

_MOST = 10      # bytes of a length


def openFileRd(in_file):  # noqa: N802 - Chakra's name
    """The file opened for reading, decompressed where it is gzip."""
    with open(in_file, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(in_file, "rb") if zipped else open(in_file, "rb")


def decodeMessage(in_file, message):  # noqa: N802 - Chakra's name
    """Reads the next message into `message`; False at the end of the file, and for a message of no bytes."""
    size = shift = 0
    for _ in range(_MOST):
        byte = in_file.read(1)
        if not byte:
            return False
        size |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            break
    else:
        return False
    if size == 0:
        return False
    message.ParseFromString(in_file.read(size))
    return True


def encodeMessage(out_file, message):  # noqa: N802 - Chakra's name
    """Writes the message after its length."""
    data = message.SerializeToString()
    size, prefix = len(data), bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    out_file.write(bytes(prefix) + data)
