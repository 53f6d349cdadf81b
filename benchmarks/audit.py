"""Images audited per second beside the bare forward passes that an audit is made of, in one run.

Both ask the same of the same random images: one abduction, the base image, the counterfactuals of the images that an
intervention changes, and the classifier's answer for each of these, for the real image and for two transformed ones.  The
bare passes have the batches ready as floats and keep nothing.  Weights are random: they do not change the time.
"""

import argparse
import time
from unittest import mock

import torch

from cfgen.audit import AuditOptions, answer, estimate, prepare
from cfgen.audit._transformations import brighten, horizontal_flip
from cfgen.contracts import rows
from cfgen.runs.model import TrainedModel
from datamodules import AttributeDataModule, Faces
from datamodules.base import Split
from lightning_modules import Classifier, CondALI


class RandomFaces(AttributeDataModule):
    """Random images with the attributes and the graph of `Faces`, the same in all splits."""

    def __init__(self, images: int) -> None:
        spec, shape = Faces().scm_spec, Faces().image_shape
        super().__init__(spec["attributes"], spec["edges"], {}, shape, batch_size=64, seed=0)
        columns = {name: torch.randint(2, (images,)).float() for name in spec["attributes"]}
        x = torch.randint(256, (images, *shape), dtype=torch.uint8)
        self.split = Split(x, columns, torch.zeros(images, dtype=torch.long))

    def read_splits(self) -> dict[str, Split]:
        return dict.fromkeys(("train", "val", "test"), self.split)


DO = [{"Black_Hair": 1, "Pale_Skin": 1}, {"Blond_Hair": 1, "Pale_Skin": 1}, {"Bangs": 1}, {"Young": 0}, {"Young": 1}]


@torch.inference_mode()
def bare(mechanism, classifier, batches) -> None:
    for x, a, vectors in batches:
        z = mechanism.abduct(x, a)
        x_r = mechanism.decode(z, a)
        for images in (x, x_r, horizontal_flip(x_r), brighten(x_r)):
            classifier(images)
        for changed, a_c in vectors:
            classifier(mechanism.decode(rows(z, changed), a_c))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000, help="how many images")
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    torch.manual_seed(0)
    data = RandomFaces(options.images)
    x, columns = data.split.images, data.split.columns
    mechanism = CondALI(data.scm_spec, data.image_shape, width=options.width, latent_dim=256).eval()
    mechanism.scm.fit(columns)
    classifier = Classifier(data.image_shape, classes=2, width=options.width).eval()
    asked = AuditOptions(do=DO, batch_size=options.batch_size, predictor=None, explain="none")

    a = mechanism.scm.schema.encode(columns)
    batches = []
    for part in torch.arange(options.images).split(options.batch_size):
        vectors = [mechanism.scm.counterfactual_vector(a[part], do) for do in DO]
        moved = [(vector != a[part]).any(dim=1) for vector in vectors]
        pairs = [(changed, vector[changed]) for changed, vector in zip(moved, vectors, strict=True)]
        batches.append((x[part].float() / 255, a[part], pairs))

    def audit() -> None:
        with mock.patch("cfgen.audit._prepare.model_data", return_value=data):  # it is of no run
            questions = prepare(TrainedModel(mechanism), classifier, asked)
        estimate(questions, *answer(questions))

    bare(mechanism, classifier, batches[:1])
    seconds: dict[str, list[float]] = {"bare forward passes": [], "audit": []}
    for _ in range(options.repeats):  # in turns, so that a busy machine slows both
        for name, run in (("bare forward passes", lambda: bare(mechanism, classifier, batches)), ("audit", audit)):
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    for name, times in seconds.items():
        print(f"{name:22s} {options.images / min(times):8.1f} images/s")
    print(f"{'audit / bare':22s} {min(seconds['bare forward passes']) / min(seconds['audit']):8.1%}")


if __name__ == "__main__":
    main()
