"""`lockstep rate`: rate clips on a local page, for a user study."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lockstep.argument_types import whole
from lockstep.arguments import MAX_UINT64
from lockstep.module_command import ArgumentParser
from lockstep.rating.server import RatingServer
from lockstep.rating.trials import RATINGS, Ratings, load_clip, plan

COMMAND = "lockstep rate"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the page until the last rating; returns the exit status."""
    options = _parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    clips = [load_clip(path) for path in options.clips]
    trials = plan(options.method, clips, options.repeat, options.seed, options.participant)
    ratings = Ratings(options.output, options.participant, options.method, trials)
    # A file that cannot be written fails before somebody rates.
    options.output.open("a").close()
    if ratings.finished:
        return _report(ratings, 0)
    with RatingServer(options.port, ratings, options.method) as server:
        try:
            print(f"rating page: http://{server.hosts[0]}/  (Ctrl-C ends it)", flush=True)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            return _report(ratings, 130)
    return _report(ratings, 0)


def _report(ratings: Ratings, status: int) -> int:
    words = "" if ratings.finished else "; run the same command again to resume"
    print(f"{ratings.count} of {len(ratings.trials)} ratings are in {ratings.path}{words}")
    return status


def _participant(text: str) -> str:
    if not text.strip() or len(text) > 64 or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of 1 to 64 characters")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog=COMMAND,
        description="Rate clips on a local page, for a user study after ITU-T P.910. Each rating is one CSV row.",
    )
    parser.add_argument("clips", nargs="+", type=Path, metavar="CLIP", help="file to rate: .webm, .mp4 or .mkv")
    parser.add_argument(
        "--method",
        choices=tuple(RATINGS),
        default="pair",
        help="pair: which of two clips is better; acr: one clip, from 1 (bad) to 5 (excellent) (default: %(default)s)",
    )
    parser.add_argument("--participant", type=_participant, required=True, help="name or number of the participant")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("ratings.csv"),
        metavar="FILE",
        help="file for the ratings, which are appended (default: %(default)s)",
    )
    parser.add_argument(
        "--repeat",
        type=whole(1, 100),
        default=1,
        metavar="N",
        help="ratings per clip or pair; 2 shows each pair in both orders (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=whole(0, MAX_UINT64),
        default=1,
        help="seed of the order, which differs between participants (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=whole(0, 65_535),
        default=0,
        help="port of the page; 0 chooses a free one (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
