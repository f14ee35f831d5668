"""A look into SVG pictures."""

import xml.etree.ElementTree as ElementTree


def points_of(svg: str) -> list[ElementTree.Element]:
    """The shapes that tell something, in their order."""
    return [group for group in ElementTree.fromstring(svg).iter("g") if group.get("class") == "point"]


def tips_of(svg: str) -> list[str]:
    return [point.findtext("title") or "" for point in points_of(svg)]


def box_of(point: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a bar or a cell."""
    numbers = [float(part) for part in point.find("path").get("d", "").split() if part not in "MLz"]  # type: ignore[union-attr]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def height_of(point: ElementTree.Element) -> float:
    _, top, _, bottom = box_of(point)
    return bottom - top


def words_of(svg: str) -> list[str]:
    """What stands in a picture."""
    return [text.text or "" for text in ElementTree.fromstring(svg).iter("text")]
