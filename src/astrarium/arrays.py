"""Types of arrays, named by what they hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "Bool"]

I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
