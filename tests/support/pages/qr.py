import base64
from typing import Final

from tests.support.chromium import Page

_PIXELS: Final = """async (png) => {
    const image = new Image();
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    return [image.width, image.height, Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 1])];
}"""
"""A picture's width, height and brightness."""


async def scanned(page: Page, picture: bytes) -> list[str]:
    import zxingcpp

    width, height, pixels = await page.evaluate(_PIXELS, base64.b64encode(picture).decode())
    found = zxingcpp.read_barcodes(memoryview(bytes(pixels)).cast("B", shape=[height, width]))
    return [one.text for one in found]
