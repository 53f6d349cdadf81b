"""Images audited per second beside the bare forward passes that an audit is made of, in one run.

Both ask the same of the same random images: one abduction, the base image, the counterfactuals of the images that an
intervention changes, and the classifier's answer for each of these, for the real image and for two transformed ones.  The
bare passes have the batches ready as floats and keep nothing.  Weights are random: they do not change the time.
"""

import argparse
import time

import torch

from cfgen.audit.estimating import Setting, effects
from cfgen.audit.plan import Plan
from cfgen.audit.results import EVERYONE, findings
from cfgen.audit.run import Images, compute_scores
from cfgen.audit.transformations import brighten, horizontal_flip
from cfgen.contracts import rows
from cfgen.external.classifier import ExternalClassifier
from datamodules import Faces
from lightning_modules import Classifier, CondALI

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
    data = Faces()  # only its attributes and graph: nothing is drawn
    mechanism = CondALI(data.scm_spec, data.image_shape, width=options.width, latent_dim=256).eval()
    columns = {name: torch.randint(2, (options.images,)).float() for name in mechanism.scm.schema.names}
    mechanism.scm.fit(columns)
    classifier = Classifier(data.image_shape, classes=2, width=options.width).eval()
    x = torch.randint(256, (options.images, *data.image_shape), dtype=torch.uint8)
    plan = Plan({str(do): do for do in DO}, batch_size=options.batch_size)

    a = mechanism.scm.schema.encode(columns)
    batches = []
    for part in torch.arange(options.images).split(options.batch_size):
        vectors = [mechanism.scm.counterfactual_vector(a[part], do) for do in DO]
        moved = [(vector != a[part]).any(dim=1) for vector in vectors]
        pairs = [(changed, vector[changed]) for changed, vector in zip(moved, vectors, strict=True)]
        batches.append((x[part].float() / 255, a[part], pairs))

    def audit() -> None:
        everyone = {EVERYONE: torch.ones(options.images, dtype=torch.bool)}
        scores = compute_scores(mechanism, {"it": ExternalClassifier(classifier)}, Images(x, columns, "test"), plan)
        setting = Setting(mechanism.scm.schema, mechanism.scm.graph, columns, plan, everyone, {})
        found = effects(setting, {"it": [scores["it"]]})
        findings(scores["it"], plan, everyone, effects=found["it"])

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
