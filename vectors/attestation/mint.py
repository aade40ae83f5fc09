"""Mints evidence under roots of our own, most of it bad: `python3 mint.py` writes minted.json.

The keys are made anew and thrown away. No code is shared with pgseal.
"""

import json
import pathlib

import mint_nitro
import mint_snp
import mint_tdx

ABOUT = (
    "Evidence under roots made for the purpose, with what must come of each: accepted, or the name "
    "of the refusal. Bytes are hexadecimal, now is in seconds since 1970, policy is TOML. What a "
    "case does not say is as in the first of its list."
)


def shortened(section):
    """Says once what many cases share."""
    first, *others = section["cases"]
    others = [{key: value for key, value in case.items() if value != first.get(key)}
              for case in others]
    return dict(section, cases=[first, *others])


def main():
    nitro, tdx = shortened(mint_nitro.mint()), shortened(mint_tdx.mint())
    snp = [shortened(mint_snp.mint()), shortened(mint_snp.turin())]
    minted = dict(about=ABOUT, snp=snp, nitro=nitro, tdx=tdx)
    path = pathlib.Path(__file__).with_name("minted.json")
    path.write_text(json.dumps(minted, indent=1) + "\n")


if __name__ == "__main__":
    main()
