"""The rule by which a config is sized for the machine and the data."""

import pytest
import yaml

from cfgen.errors import UserError
from cfgen.training.recipe import FEWEST_EPOCHS, HOURS, Machine, recipe_for, seconds
from tests.fakes import DIGITS, Measured, Painted

SMALL, LARGE = Machine(cores=1, memory=2, gpu=False), Machine(cores=64, memory=256, gpu=False)
SECTION = {"class_path": "tests.fakes.Painted", "init_args": {"batch_size": 7, "seed": 3}}


class Many(Painted):
    """As many images as one likes, in no memory: they are all the same one."""

    def __init__(self, size=28, rows=60):
        super().__init__(image_shape=(3, size, size), rows=20, batch_size=2)
        self.many = rows

    def images(self, split):
        return super().images(split)[:1].expand(self.many, *self.image_shape)


def made(data, machine):
    data.setup()
    return recipe_for(data, SECTION, "painted", machine)


def sizes(recipe):
    config = recipe.config
    return (
        config["model"]["init_args"]["width"],
        config["data"]["init_args"]["batch_size"],
        config["trainer"]["max_epochs"],
    )


@pytest.mark.parametrize("size", [16, 28, 64, 128])
@pytest.mark.parametrize("rows", [60, 1000, 200_000])
def test_fits_the_machine_and_the_data(size, rows):
    data = Many(size, rows)
    for machine in (SMALL, LARGE):
        width, batch_size, epochs = sizes(made(data, machine))
        assert 8 * batch_size <= rows
        hours = rows * epochs * seconds(size, width) / machine.cores**0.7 / 3600
        assert hours <= 1.05 * HOURS or (epochs == FEWEST_EPOCHS and width == 0.5)
        assert batch_size * 15 * (size / 64) ** 1.5 <= 500 * machine.memory


def test_a_larger_machine_and_smaller_images_do_more():
    large = Many(128, 5000)
    small, more = (sizes(made(large, machine)) for machine in (SMALL, LARGE))
    assert small[0] < more[0]
    assert small[2] < more[2]
    assert sizes(made(Many(28, 5000), SMALL))[1] > small[1]
    assert sizes(made(large, Machine(8, 24, gpu=True)))[0] == 2 * more[0]


def test_losses_are_those_of_the_packaged_recipes():
    from cfgen.training.configs import packaged_configs

    same = ("kl", "independence", "counterfactual", "threshold", "deviation", "reconstruction_l1", "adversary", "joint")
    for name, data in (("faces_hvae_cpu", Painted(rows=60)), ("morphomnist_hvae_cpu", Painted(DIGITS, rows=60))):
        packaged = yaml.safe_load(packaged_configs()[name].read_text())["model"]["init_args"]
        found = made(data, SMALL).config["model"]["init_args"]
        assert {key: found.get(key) for key in same} == {key: packaged.get(key) for key in same}


def test_the_data_stays_as_it_was_asked_for_and_the_text_is_the_config():
    recipe = made(Painted(DIGITS, rows=60), SMALL)
    assert recipe.config["data"]["init_args"]["seed"] == 3
    assert SECTION["init_args"]["batch_size"] == 7
    assert yaml.safe_load(recipe.text()) == recipe.config
    assert recipe.text().startswith("# HVAE on painted")


def test_what_can_be_measured_chooses_the_checkpoint():
    def monitor(data):
        return made(data, SMALL).config["trainer"]["callbacks"][-1]["init_args"]["monitor"]

    assert monitor(Measured(DIGITS, rows=60)) == "val/median_abs_error/relative"
    assert monitor(Painted(DIGITS, rows=60)) == "val/mse_x"


def test_a_size_without_a_model_is_refused_and_no_file_is_replaced(tmp_path):
    with pytest.raises(UserError) as refused:
        made(Many(30), SMALL)
    assert refused.value.argument == "write"
    recipe = made(Painted(rows=60), SMALL)
    path = recipe.save(tmp_path / "new" / "mine.yaml")
    with pytest.raises(UserError):
        recipe.save(path)
    with pytest.raises(UserError):
        recipe.save(tmp_path)
