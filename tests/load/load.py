"""Marks of a server under load: `load.py MARK ..`, with the program in TOOLCELL and its components in TOOLS."""

import argparse

import existence
import flood
import many
import small
import soak


def main() -> None:
    parser = argparse.ArgumentParser()
    marks = parser.add_subparsers(dest="mark", required=True)
    mark = marks.add_parser("flood")
    mark.add_argument("--short", action="store_true", help="a minute: for development")
    mark.add_argument("only", nargs="*", help="kinds of floods")
    mark.set_defaults(run=lambda given: flood.main(given.short, given.only))
    mark = marks.add_parser("soak")
    mark.add_argument("--minutes", type=float, default=20)
    mark.set_defaults(run=lambda given: soak.main(given.minutes))
    mark = marks.add_parser("many")
    mark.add_argument("--minutes", type=float, default=5)
    mark.set_defaults(run=lambda given: many.main(given.minutes))
    mark = marks.add_parser("small")
    mark.set_defaults(run=lambda given: small.main())
    mark = marks.add_parser("existence")
    mark.set_defaults(run=lambda given: existence.main())
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
