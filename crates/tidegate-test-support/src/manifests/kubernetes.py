"""Renders charts and checks objects by the schemas of Kubernetes.

Reads a request, JSON, from each line of standard input, and answers each with a line of JSON.
"""

import functools
import json
import sys

import helm_python
import kubernetes_validate
import yaml
from kubernetes_validate import utils

# Those from the oldest that the chart allows to the newest that the schemas know.
ALL_VERSIONS = [version for version in utils.all_versions() if int(version.split(".")[1]) >= 30]

# The definitions of a version are a megabyte.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that a mapping has twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        repeated = {str(key) for key in keys if keys.count(key) > 1}
        if repeated:
            raise yaml.YAMLError(f"{node.start_mark}: the key {', '.join(repeated)} stands there twice")
        return super().construct_mapping(node, deep)


def parsed(text):
    return [document for document in yaml.load_all(text, StrictLoader) if document is not None]


def chart(request):
    values = (parsed(request["values"]) or [None])[0] or {}
    with helm_python.Chart.load(request["chart"]) as loaded:
        rendered = loaded.render(values, name=request["release"], namespace=request["namespace"])
    texts = [text for path, text in sorted(rendered.items()) if path.endswith(".yaml")]
    return {"objects": [value for text in texts for value in parsed(text)]}


def lint(request):
    report = helm_python.lint(request["chart"], strict=True)
    # Severity 1 is advice, such as that a chart has no icon.
    return {"complaints": [message["error"] for message in report["messages"] if message["severity"] > 1]}


@functools.lru_cache(maxsize=None)
def complaints_about(text, versions):
    value = json.loads(text)
    name = f"{value.get('kind')} {value.get('metadata', {}).get('name')}"
    found = []
    for version in versions:
        try:
            kubernetes_validate.validate(value, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(str(part) for part in error.path)
            found.append(f"{name}: {path}: {error.message[:300]} (Kubernetes {version})")
        except utils.SchemaNotFoundError as error:
            # A custom resource; nothing of Kubernetes' own ends like this.
            if not value["apiVersion"].startswith("monitoring.coreos.com/"):
                found.append(f"{name}: {error.message}")
    return found


def complaints(request):
    versions = sorted(set(ALL_VERSIONS), key=utils.Version)
    if request.get("versions") != "all":
        versions = [versions[0], versions[-1]]
    found = [complaints_about(json.dumps(value), tuple(versions)) for value in request["objects"]]
    return {"complaints": [line for lines in found for line in lines]}


def documents(request):
    return {"documents": parsed(request["text"])}


ACTIONS = {"chart": chart, "lint": lint, "complaints": complaints, "documents": documents}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = ACTIONS[request["do"]](request)
    except Exception as error:  # The caller decides whether it is expected.
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
