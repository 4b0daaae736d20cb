"""Builds each folder that the command line names, and prints a line of JSON for each."""

import asyncio
import json
import sys

import pykustomize

for folder in sys.argv[1:]:
    try:
        answer = {"objects": asyncio.run(pykustomize.build_json(folder)).resources}
    except Exception as error:  # The caller decides whether it is expected.
        answer = {"error": str(error)}
    print(json.dumps(answer))
