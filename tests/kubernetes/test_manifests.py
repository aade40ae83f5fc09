#!/usr/bin/python3
"""packaging/cnpg: what Kubernetes would refuse. Clusters against CloudNativePG's own definition, by kubeconform; the values of its chart
against the chart's schema; and that manifests, image and page agree.

scripts/fetch-kubernetes.sh brings the definition, the schema and kubeconform.
"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/packages")]
from chroot import CACHE  # noqa: E402

CNPG = ROOT / "packaging/cnpg"
FETCHED = CACHE / "kubernetes"
# Names that CloudNativePG keeps for itself: pkg/postgres/environment.go.
RESERVED = re.compile(r"^(CNPG_|PG|POD_NAME$|NAMESPACE$|CLUSTER_NAME$)", re.I)


def strict(schema):
    """A schema of a definition, in which every object that names its fields has no others."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: strict(part) for name, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema.pop("anyOf", None)
        schema["type"] = ["integer", "string"]
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


def documents(name):
    """The documents of a file of packaging/cnpg."""
    return list(yaml.safe_load_all((CNPG / name).read_text()))


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (FETCHED / "bin/kubeconform").exists():
            raise unittest.SkipTest("there is no kubeconform: run scripts/fetch-kubernetes.sh")
        definition = yaml.safe_load((FETCHED / "clusters.yaml").read_text())
        version, = (one for one in definition["spec"]["versions"] if one["name"] == "v1")
        cls.schemas = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.schemas.cleanup)
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        cls.schema = schema
        (Path(cls.schemas.name) / "cluster.json").write_text(json.dumps(schema))

    def conform(self, *files):
        """kubeconform's result for files; ConfigMaps are Kubernetes' own."""
        command = [FETCHED / "bin/kubeconform", "-strict", "-output", "json", "-verbose", "-skip", "ConfigMap", "-schema-location",
                   f"{self.schemas.name}/{{{{.ResourceKind}}}}.json", *files]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        return {one["kind"]: one["status"] for one in json.loads(done.stdout)["resources"]}, done

    def test_clusters_conform(self):
        for file in (CNPG / "base/cluster.yaml", CNPG / "kms.yaml"):
            found, done = self.conform(file)
            self.assertEqual(found["Cluster"], "statusValid", done.stdout)
            self.assertEqual(done.returncode, 0)

    def test_a_misspelt_setting_does_not_conform(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write((CNPG / "base/cluster.yaml").read_text().replace("projectedVolumeTemplate:", "projectedVolumes:"))
            file.flush()
            found, done = self.conform(file.name)
        self.assertEqual((found["Cluster"], done.returncode), ("statusInvalid", 1))
        self.assertIn("projectedVolumes", done.stdout)

    def test_the_base_names_what_is_there(self):
        kustomization, = documents("base/kustomization.yaml")
        resources = kustomization["resources"]
        self.assertEqual(sorted(resources), sorted(file.name for file in (CNPG / "base").iterdir() if file.name != "kustomization.yaml"))
        names = {(one["kind"], one["metadata"]["name"]) for name in resources for one in documents(f"base/{name}")}
        cluster, = documents("base/cluster.yaml")
        for source in cluster["spec"]["projectedVolumeTemplate"]["sources"]:
            if "configMap" in source:
                self.assertIn(("ConfigMap", source["configMap"]["name"]), names)
        for source in cluster["spec"]["envFrom"]:
            self.assertIn(("ConfigMap", source["configMapRef"]["name"]), names)

    def test_items_name_keys_that_are_there(self):
        for name, settings in (("base/cluster.yaml", "base/settings.yaml"), ("kms.yaml", "kms.yaml")):
            maps = {one["metadata"]["name"]: one["data"] for one in documents(settings) if one["kind"] == "ConfigMap"}
            cluster = documents(name)[0]
            for source in cluster["spec"]["projectedVolumeTemplate"]["sources"]:
                if "configMap" in source:
                    keys = [item["key"] for item in source["configMap"]["items"]]
                    self.assertLessEqual(set(keys), set(maps[source["configMap"]["name"]]))

    def test_values_are_the_charts(self):
        values, = documents("helm/values.yaml")
        schema = json.loads((FETCHED / "values.schema.json").read_text())
        jsonschema.validate(values, schema)
        self.assertLessEqual(set(values["cluster"]), set(schema["properties"]["cluster"]["properties"]))
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate({"cluster": {"envFrom": "a"}}, schema)

    def test_no_variable_is_one_that_the_operator_refuses(self):
        specs = [documents(name)[0]["spec"] for name in ("base/cluster.yaml", "kms.yaml")]
        for spec in (*specs, documents("helm/values.yaml")[0]["cluster"]):
            for variable in spec.get("env", []):
                self.assertNotRegex(variable["name"], RESERVED)


if __name__ == "__main__":
    unittest.main(verbosity=2)
