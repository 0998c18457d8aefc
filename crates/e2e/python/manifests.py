"""Reads Kubernetes manifests as the API server would, offline.

Every document is held against the schemas that Kubernetes publishes, for the oldest and the newest release that is
meant, with unknown fields refused. What is read is printed as JSON, for further questions.
"""

import json
import sys

import kubernetes_validate
import yaml

OLDEST = "1.29"


class Once(yaml.SafeLoader):
    """A key that is given twice is a slip, not a choice."""


def mapping(loader, node):
    found = {}
    for key, value in node.value:
        name = loader.construct_object(key)
        if name in found:
            raise ValueError(f"{key.start_mark}: {name} is given twice")
        found[name] = loader.construct_object(value, deep=True)
    return found


Once.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)

documents, wrong = [], []
for path in sys.argv[1:]:
    with open(path) as file:
        for document in yaml.load_all(file, Once):
            documents.append(document)
            for version in (OLDEST, kubernetes_validate.latest_version()):
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except Exception as cause:  # Whatever it is: it is not a good manifest.
                    name = f"{document['kind']} {document['metadata']['name']}"
                    why = getattr(cause, "message", cause)
                    wrong.append(f"{path}: {name}, Kubernetes {version}: {why}")
if wrong:
    sys.exit("\n".join(wrong))
json.dump(documents, sys.stdout)
