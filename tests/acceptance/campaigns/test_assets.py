import asyncio
import base64
import io
import struct
import zlib
from dataclasses import replace
from typing import Any, Final

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from runtime.errors import Fault
from runtime.operations.assets import decoding
from tests.support.resources import font, make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of

SCRIPT: Final = b"<script>alert(1)</script>"


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30), colour: int = 0, **how: Any) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", size, (194, colour % 256, colour // 256)).save(written, kind, **how)
    return written.getvalue()


def bomb() -> bytes:
    """A PNG that announces 30,000 x 30,000 pixels, in few bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def many_pixels() -> bytes:
    """A complete picture of few bytes, which would take 160 MB when decoded."""
    written = io.BytesIO()
    Image.new("1", (20_000, 2_000)).save(written, "PNG")
    return written.getvalue()


async def upload(stack: Stack, body: bytes, kind: str = "image/png", **query: str) -> Answer:
    return await stack.upload("/admin/assets", body, kind, role="designer", **query)


async def served(stack: Stack, url: str, **headers: str) -> tuple[int, Any, bytes]:
    async with stack.http.get(stack.process.consumer_url + url, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_uploaded_picture_is_reencoded_and_served_for_ever(stack: Stack) -> None:
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "taken at home")
    body = picture(pnginfo=about)
    made = (await upload(stack, body, name="logo.png")).data
    assert (made["name"], made["type"], made["width"], made["height"]) == ("logo.png", "image/webp", 40, 30)
    by_core = await stack.core("POST", "/assets", {"content": base64.b64encode(body).decode()})
    assert by_core.data["asset"]["id"] == made["id"], "the same file is the same asset"
    assert [one["id"] for one in (await stack.admin("GET", "/admin/assets")).data["items"]] == [made["id"]]
    status, headers, stored = await served(stack, made["url"])
    assert (status, headers["Content-Type"], len(stored)) == (200, "image/webp", made["size"])
    assert (headers["X-Content-Type-Options"], headers["Access-Control-Allow-Origin"]) == ("nosniff", "*")
    assert "immutable" in headers["Cache-Control"]
    assert b"taken at home" not in stored
    assert (await served(stack, made["url"], **{"If-None-Match": headers["ETag"]}))[0] == 304
    [entry] = (await stack.admin("GET", "/admin/audit", subject_id=made["id"])).data["items"][-1:]
    assert entry["action"] == "asset.create"


async def test_asset_of_another_tenant_is_unknown(stack: Stack) -> None:
    made = (await upload(stack, picture(colour=7))).data
    other = replace(stack, tenant_id=OTHER_TENANT)
    for verb in ("GET", "DELETE"):
        assert (await other.admin(verb, f"/admin/assets/{made['id']}")).reason == "UNKNOWN_ASSET"
    assert (await served(stack, made["url"].replace(stack.tenant_id, OTHER_TENANT)))[0] == 404
    assert (await served(stack, "/assets/tenant_invented/asset_0"))[0] == 404


@pytest.mark.parametrize(
    ("name", "body"),
    [
        *(("truncated", picture(size=(400, 400))[:-200]), ("bomb", bomb()), ("40 million pixels", many_pixels())),
        ("svg", b'<svg xmlns="http://www.w3.org/2000/svg">' + SCRIPT + b"</svg>"),
        *(("html", b"<!doctype html>" + SCRIPT), ("gif", picture("GIF"))),
        *(("tiff as png", b"\x89PNG\r\n\x1a\n" + picture("TIFF")), ("avi as webp", b"RIFF\x10\0\0\0AVI LIST")),
        *(("cut font", font()[:60]), ("long font", font() + SCRIPT), ("font collection", font(flavor=b"ttcf"))),
        *(("font bomb", font(expanded=2**31)), ("nothing", b"")),
    ],
)
@pytest.mark.fault("Hostile upload", size="13 files", figure="refused by name")
async def test_hostile_file_is_refused(stack: Stack, name: str, body: bytes) -> None:
    sent = {"content": base64.b64encode(body).decode()}
    assert fields_of(await stack.admin("POST", "/admin/assets", sent)) == ["content"], name


FORM: Final = "multipart/form-data; boundary=b"
FILE: Final = 'name="file"; filename="my logo.png"'


def form(*parts: tuple[str, bytes]) -> bytes:
    start = "--b\r\nContent-Disposition: form-data; "
    return b"".join(f"{start}{head}\r\n\r\n".encode() + value + b"\r\n" for head, value in parts) + b"--b--\r\n"


@pytest.mark.fault("Hostile upload", size="14 forms, 100 MB", figure="refused by name")
async def test_form_uploads_one_file_and_a_refusal_names_its_part(stack: Stack) -> None:
    name, body = 'name="name"', picture(colour=50)
    made = (await upload(stack, form((FILE, body)), FORM)).data
    assert (made["name"], made["type"]) == ("my logo.png", "image/webp")
    other = form((name, b"Logo"), ('name="content"; filename="x.png"', picture(colour=51)))
    assert (await upload(stack, other, FORM)).data["name"] == "Logo"
    huge, many = form((f"{FILE}; x={'y' * 9_000}", body)), form((f"{FILE}{chr(13)}\nX: y" * 20, body))
    hostile = (
        *(("two files", form((FILE, body), (FILE, body))), ("no file", form((name, b"Logo"))), ("nothing", b"")),
        *(
            *(("an empty file", form((FILE, b""))), ("a page", form((FILE, SCRIPT)))),
            ("a cut form", form((FILE, body))[:-9]),
        ),
        *(("a bare boundary", b"--b--\r\n"), ("many parts", form(*[(name, b"x")] * 50_000)), ("a huge header", huge)),
        *(("many headers", many), ("another boundary", form((FILE, body)).replace(b"--b", b"--c"))),
        ("a long file", form((FILE, bytes(decoding.UPLOAD_BYTES_MAX + 1)))),
    )
    for what, sent in hostile:
        assert fields_of(await upload(stack, sent, FORM)) == ["content"], what
    for kind in ("multipart/form-data", "multipart/form-data; boundary="):
        assert fields_of(await upload(stack, form((FILE, body)), kind)) == ["content"]
    assert fields_of(await upload(stack, form((FILE, body), ('name="colour"', b"red")), FORM)) == ["colour"]
    assert (await upload(stack, form((FILE, bytes(100_000_000))), FORM)).reason == "BODY_TOO_LARGE"


@pytest.mark.fault("Hostile upload", size="3 polyglots", figure="served as pixels alone")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_polyglot_loses_all_but_its_pixels(stack: Stack, kind: str) -> None:
    """A picture that is a page or an archive too: the text is in its metadata and after its end."""
    exif = Image.Exif()
    exif[0x010E] = SCRIPT.decode()
    made = (await upload(stack, picture(kind, exif=exif, icc_profile=SCRIPT) + SCRIPT + b"PK\5\6", "image/jpeg")).data
    _, _, stored = await served(stack, made["url"])
    assert SCRIPT not in stored
    assert b"PK\5\6" not in stored
    assert stored.startswith(b"RIFF")


async def test_animation_is_reduced_to_its_first_frame(stack: Stack) -> None:
    frames = [Image.new("RGB", (20, 20), (n, 0, 0)) for n in range(200)]
    written = io.BytesIO()
    frames[0].save(written, "WEBP", save_all=True, append_images=frames[1:])
    _, _, stored = await served(stack, (await upload(stack, written.getvalue(), "image/webp")).data["url"])
    assert getattr(Image.open(io.BytesIO(stored)), "n_frames", 1) == 1


async def test_photo_is_turned_upright_and_scaled_down(stack: Stack) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # The camera was held upright.
    made = (await upload(stack, picture("JPEG", (4_000, 3_000), exif=exif), "image/jpeg")).data
    assert (made["width"], made["height"]) == (1_536, 2_048)


async def test_font_is_stored_as_it_is(stack: Stack) -> None:
    _, headers, stored = await served(stack, (await upload(stack, font(), "font/woff2")).data["url"])
    assert (headers["Content-Type"], stored) == ("font/woff2", font())


@pytest.mark.settings(asset_quota_bytes=2_000)
async def test_parallel_uploads_stay_within_the_quota(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "WAITING_MAX", 4)  # So that some are refused as overloaded.
    bodies = [picture(colour=n) for n in range(40)] + [font(expanded=n + 1) for n in range(60)]
    answers = await asyncio.gather(*(upload(stack, body) for body in bodies))
    assert {answer.reason for answer in answers if answer.code != "OK"} == {"QUOTA_EXCEEDED", "OVERLOADED"}
    kept = (await stack.admin("GET", "/admin/assets", limit=100)).data
    assert kept["used_bytes"] == sum(one["size"] for one in kept["items"]) <= 2_000
    assert len(kept["items"]) == len({one.data["id"] for one in answers if one.code == "OK"})
    assert kept["used_bytes"] + 100 > 2_000, "a font of 100 bytes was refused though it fits"
    again = font(expanded=next(n + 1 for n in range(60) if answers[40 + n].code == "OK"))
    assert (await upload(stack, again)).code == "OK", "a file that exists needs no space"


async def test_shown_asset_cannot_be_deleted(stack: Stack) -> None:
    made = (await upload(stack, picture(colour=11))).data
    campaign = await make_campaign(stack, settings={"theme": {"logo": made["url"]}})
    prize_id = await make_prize(stack, image_url=made["url"])
    game = await make_game(stack, campaign["id"], prize_id, ui={"background": {"image": made["url"]}})
    path = f"/admin/assets/{made['id']}"
    refused = await stack.admin("DELETE", path)
    assert refused.reason == "IN_USE"
    users = [(one["type"], one["id"]) for one in refused.envelope["data"]["used_by"]]
    assert users == [("campaign", campaign["id"]), ("game", game["id"]), ("prize", prize_id)]
    await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"settings": {}})
    await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"image_url": ""})
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"ui": {}})
    assert (await stack.admin("DELETE", path)).data == {"id": made["id"], "archived": False}
    assert (await stack.admin("GET", path)).reason == "UNKNOWN_ASSET"


async def test_merchant_s_staff_deletes_only_its_own_assets(stack: Stack) -> None:
    shops = [(await stack.admin("POST", "/admin/merchants", {"name": name})).data["id"] for name in ("Inn", "Mill")]
    inn, mill = (replace(stack, merchant_id=shop) for shop in shops)
    own = (await upload(inn, picture(colour=20))).data
    assert own["merchant_id"] == inn.merchant_id
    assert (await mill.admin("GET", f"/admin/assets/{own['id']}")).reason == "UNKNOWN_ASSET"
    await make_campaign(mill, settings={"theme": {"logo": own["url"]}})
    refused = await inn.admin("DELETE", f"/admin/assets/{own['id']}")
    assert (refused.reason, refused.envelope["data"]["used_by"]) == ("IN_USE", [])
    shared = (await upload(mill, picture(colour=20))).data
    assert shared["merchant_id"] == "", "an asset of several owners is the tenant's"
    assert (await inn.admin("DELETE", f"/admin/assets/{own['id']}")).reason == "FORBIDDEN"


async def test_campaign_file_names_the_same_picture_in_another_tenant(stack: Stack) -> None:
    """An import adapts the URL, so a second one changes nothing. The launch check finds a picture that is missing."""
    url = (await upload(stack, picture(colour=30))).data["url"]
    campaign = {"name": "Fair", "settings": {"theme": {"logo": url}}}
    file = {"campaign": campaign, "prizes": [{"name": "Mug", "image_url": url}]}
    other = replace(stack, tenant_id=OTHER_TENANT)
    made = (await other.admin("POST", "/admin/campaigns/import", {"file": file})).data
    path = f"/admin/campaigns/{made['campaign_id']}"
    there = url.replace(f"/{stack.tenant_id}/", f"/{OTHER_TENANT}/")
    assert (await other.admin("GET", path)).data["settings"]["theme"]["logo"] == there
    again = (await other.admin("POST", "/admin/campaigns/import", {"file": file, "into": made["campaign_id"]})).data
    assert (again["changed"], again["kept"]) == (0, 2)

    async def missing() -> list[str]:
        items = (await other.admin("GET", f"{path}/launch-check")).data["items"]
        return [one["field"] for one in items if "does not exist" in one["message"]]

    assert await missing() == ["settings"]
    await upload(other, picture(colour=30))
    assert await missing() == []


async def test_colours_of_another_profile_are_converted(stack: Stack) -> None:
    """A profile that swaps red and green is not stored, so its effect must be in the pixels."""
    srgb = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    tags = {bytes(srgb[at : at + 4]): at for at in range(132, 132 + 12 * int.from_bytes(srgb[128:132], "big"), 12)}
    red, green = tags[b"rXYZ"], tags[b"gXYZ"]
    srgb[red : red + 4], srgb[green : green + 4] = b"gXYZ", b"rXYZ"
    _, _, stored = await served(stack, (await upload(stack, picture(colour=0, icc_profile=bytes(srgb)))).data["url"])
    red_part, green_part, _ = Image.open(io.BytesIO(stored)).convert("RGB").getpixel((20, 15))
    assert red_part < 40 < 160 < green_part


async def test_tenants_take_turns_in_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bytes] = []

    async def slowly(body: bytes) -> decoding.Decoded:
        await asyncio.sleep(0)
        done.append(body[-1:])
        return decoding.Decoded("asset", "image/webp", body)

    monkeypatch.setattr(decoding, "_recoded", slowly)
    decoder, riff = decoding.Decoder(), b"RIFF"
    many = [asyncio.create_task(decoder.decode("a", riff + b"a")) for _ in range(decoding.OF_TENANT_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Fault, match="too many uploads"):
        await decoder.decode("a", riff + b"a")
    await asyncio.gather(decoder.decode("b", riff + b"b"), *many)
    assert done.index(b"b") <= 2
