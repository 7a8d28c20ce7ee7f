"""Pictures of images and videos, for readers and encoders: found, decoded, rotated, scaled.

Importing it loads Pillow; PyAV is loaded for the first video.
"""

from canopy_rag.media.files import locate
from canopy_rag.media.frames import frame_data_uris, load_frames
from canopy_rag.media.images import data_uri, image_data_uri, load_image

__all__ = [
    "data_uri",
    "frame_data_uris",
    "image_data_uri",
    "load_frames",
    "load_image",
    "locate",
]
