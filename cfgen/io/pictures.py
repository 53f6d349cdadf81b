"""Pictures from files that somebody else may have made: a small file can hold a very large one, so its size is asked first."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from cfgen.errors import UserError
from cfgen.io.files import read_bytes

__all__ = [
    "FORMATS",
    "MOST_BYTES",
    "MOST_PIXELS",
    "decoded_bytes",
    "decoded_jpeg",
    "decoded_picture",
    "in_colours",
    "opened_bytes",
]

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # Pillow hands others, such as EPS, to other programs
MOST_BYTES = 200_000_000
MOST_PIXELS = 50_000_000
ORIENTATION = 0x0112  # the note of a camera that says how it was held
TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")


def decoded_picture(
    file: str | Path, formats: tuple[str, ...] = FORMATS, most_pixels: int = MOST_PIXELS
) -> Image.Image:
    """The picture in a file, its pixels read; refuses one that is too large before it is decoded."""
    data = read_bytes(Path(file), MOST_BYTES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return decoded_bytes(data, str(file), formats, most_pixels)


def decoded_bytes(
    data: bytes, where: str, formats: tuple[str, ...] = FORMATS, most_pixels: int = MOST_PIXELS
) -> Image.Image:
    """`decoded_picture` of what a file holds; any number of threads may call it."""
    picture = opened_bytes(data, where, formats, most_pixels)
    try:
        picture.load()
    except Exception as error:  # decoders raise what they like on a broken file
        raise UserError(f"{where} cannot be read as an image ({' '.join(str(error).split())})") from error
    return picture


def opened_bytes(
    data: bytes, where: str, formats: tuple[str, ...] = FORMATS, most_pixels: int = MOST_PIXELS
) -> Image.Image:
    """A picture whose size and kind are known and whose pixels are not read yet."""
    try:
        picture = Image.open(io.BytesIO(data), formats=formats)
    except UnidentifiedImageError as error:
        known = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise UserError(f"{where} cannot be read as an image ({known} is expected)") from error
    except Image.DecompressionBombError as error:  # Pillow's own limit, which comes first
        raise UserError(f"{where} has more than the {most_pixels:,} pixels that are read: make it smaller") from error
    except Exception as error:
        raise UserError(f"{where} cannot be read as an image ({' '.join(str(error).split())})") from error
    require_few_pixels(picture, where, most_pixels)
    return picture


def in_colours(picture: Image.Image, channels: int, where: str) -> Image.Image:
    """A picture as bytes of grey (1 channel) or of colour (3): upright as its camera noted, what is transparent black.

    Of 16 bits a grey keeps the upper eight, which `convert` would cut off at 255.
    """
    wanted = "L" if channels == 1 else "RGB"
    try:
        if picture.getexif().get(ORIENTATION, 1) != 1:
            picture = ImageOps.exif_transpose(picture)
        if picture.mode in TRANSPARENT or "transparency" in picture.info:
            layer = picture.convert("RGBA")
            picture = Image.alpha_composite(Image.new("RGBA", layer.size, (0, 0, 0, 255)), layer)
        elif picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format == "PNG"):
            picture = Image.fromarray((np.array(picture) >> 8).astype(np.uint8))
        elif picture.mode in ("I", "F"):
            raise UserError(f"{where} has 32 bits for a pixel, and 8 or 16 are read: save it as PNG")
        return picture if picture.mode == wanted else picture.convert(wanted)
    except UserError:
        raise
    except Exception as error:  # whatever the notes that a camera leaves in a file may hold
        raise UserError(f"{where} cannot be read as an image ({error})") from error


def decoded_jpeg(data: bytes, where: str, most_pixels: int = MOST_PIXELS) -> Image.Image:
    """A JPEG's pixels in colours, as Pillow has them; asked for JPEG alone, it need not find out what it is given."""
    try:
        image = JpegImageFile(io.BytesIO(data))
        require_few_pixels(image, where, most_pixels)
        image.load()  # now: a damaged file shows here, not when the pixels are used
        return image if image.mode == "RGB" else image.convert("RGB")
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{where} is not a readable JPEG: {reason}") from None


def require_few_pixels(picture: Image.Image, where: str, most: int) -> None:
    pixels = picture.width * picture.height
    if pixels > most:
        raise UserError(f"{where} has {pixels:,} pixels, and at most {most:,} are read: make it smaller")
