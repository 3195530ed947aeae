from tests.support.chromium import Locator
from tests.support.staff import Desk


def field(desk: Desk, name: str) -> Locator:
    return desk.page.locator(f"#content form [name='{name}']")


async def retype(control: Locator, text: str) -> None:
    await control.focus()
    await control.press("ControlOrMeta+a")
    await control.press("Delete")
    await control.press_sequentially(text)


async def names_of(desk: Desk) -> list[str]:
    keys = await desk.page.get_by_label("Name", exact=True).all()
    return [await key.input_value() for key in keys[1:]]  # The first is the game's.
