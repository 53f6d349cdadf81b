"""Pictures from files that somebody else may have made: a small file can hold a very large one, so its size is asked first."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

from cfgen.errors import UserError
from cfgen.safety.files import read_bytes

__all__ = ["FORMATS", "MOST_BYTES", "MOST_PIXELS", "decoded_jpeg", "decoded_picture"]

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # Pillow hands others, such as EPS, to other programs
MOST_BYTES = 200_000_000
MOST_PIXELS = 50_000_000


def decoded_picture(
    file: str | Path, formats: tuple[str, ...] = FORMATS, most_pixels: int = MOST_PIXELS
) -> Image.Image:
    """The picture in a file, its pixels read; refuses one that is too large before it is decoded."""
    data = io.BytesIO(read_bytes(Path(file), MOST_BYTES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            picture = Image.open(data, formats=formats)
        require_few_pixels(picture, str(file), most_pixels)
        picture.load()
    except UserError:
        raise
    except UnidentifiedImageError as error:
        known = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise UserError(f"{file} cannot be read as an image ({known} is expected)") from error
    except Image.DecompressionBombError as error:  # Pillow's own limit, which comes first
        raise UserError(f"{file} has more than the {most_pixels:,} pixels that are read: make it smaller") from error
    except Exception as error:  # decoders raise what they like on a broken file
        raise UserError(f"{file} cannot be read as an image ({' '.join(str(error).split())})") from error
    return picture


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
