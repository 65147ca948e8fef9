"""Models, systems, versions and data types."""

from __future__ import annotations

import pickle
import shutil
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import aiconfigurator_core
import pytest

from aisimulate.core.errors import InputError
from aisimulate.timing.aic import (
    compile_engine_spec,
    engine_key,
    known_systems,
    model_facts,
    probe,
    system_facts,
)
from aisimulate.timing.aic.errors import (
    AicDataGap,
    AicUnsupportedDtype,
    ModelNotAvailable,
    ShapeNotViable,
    UnknownBackendVersion,
    UnknownSystem,
)
from aisimulate.timing.aic.names import bundled_models, resolve_model
from aisimulate.timing.aic.quant import resolve_modes
from aisimulate.timing.aic.version import resolve_version, version_slots

CONFIGS = Path(aiconfigurator_core.__file__).parent / "model_configs"
GIB = 1 << 30


def local_model(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    shutil.copy(CONFIGS / f"{name.replace('/', '--')}_config.json", folder / "config.json")
    return folder


class TestModels:
    def test_facts(self) -> None:
        llama = model_facts("meta-llama/Meta-Llama-3.1-8B")
        assert (llama.layers, llama.context_tokens, llama.is_moe, llama.nextn) == (32, 131072, False, 0)
        assert (llama.num_heads, llama.num_kv_heads, llama.hidden_size) == (32, 8, 4096)
        glm = model_facts("zai-org/GLM-5-FP8")
        assert (glm.layers, glm.context_tokens, glm.is_moe, glm.nextn) == (78, 202752, True, 1)
        assert glm.architecture == "GlmMoeDsaForCausalLM"

    def test_unbundled_names_never_touch_the_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[Any] = []

        def urlopen(*args: Any, **_: Any) -> None:
            calls.append(args)
            raise URLError("no route")

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        with pytest.raises(ModelNotAvailable, match="did you mean 'Qwen/Qwen3-32B-FP8'"):
            engine_key("Qwen/Qwen3-32B-FP9", "h200_sxm", "vllm")
        with pytest.raises(ModelNotAvailable, match="not bundled"):
            model_facts("nobody/nothing")
        assert calls == []
        with pytest.raises(ModelNotAvailable, match=r"could not be downloaded.*no route.*folder"):
            model_facts("nobody/nothing", allow_download=True)
        assert len(calls) == 1

    def test_local_folder(self, tmp_path: Path) -> None:
        folder = local_model(tmp_path / "mine", "Qwen/Qwen3-8B")
        assert resolve_model(str(folder)) == str(folder)
        assert model_facts(str(folder)).layers == model_facts("Qwen/Qwen3-8B").layers

    def test_relative_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        local_model(tmp_path / "org" / "mine", "Qwen/Qwen3-8B")
        monkeypatch.chdir(tmp_path)
        assert resolve_model("org/mine") == "org/mine"
        assert model_facts("./org/mine").layers == 36

    def test_a_bundled_name_is_not_shadowed_by_a_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = "meta-llama/Meta-Llama-3.1-405B"
        local_model(tmp_path / name, "Qwen/Qwen3-0.6B")
        monkeypatch.chdir(tmp_path)
        assert model_facts(name).layers == 126
        assert model_facts(f"./{name}").layers == 28
        assert Path.cwd() == tmp_path

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("Qwen/Qwen3-32B-FP9", "; did you mean 'Qwen/Qwen3-32B-FP8'?"),
            ("meta-llama/Llama-3.1-8B", "; did you mean 'meta-llama/Meta-Llama-3.1-8B'?"),
            ("qwen3-32b", "; did you mean 'Qwen/Qwen3-32B'?"),
            ("qwen/QWEN3-8B", "; did you mean 'Qwen/Qwen3-8B'?"),
            ("Qwen/Qwen3-14B", ""),
            ("Qwen/Qwen2.5-7B-Instruct", ""),
            ("mistralai/Mistral-7B-v0.1", ""),
        ],
    )
    def test_only_a_slip_of_the_pen_is_corrected(self, name: str, hint: str) -> None:
        with pytest.raises(ModelNotAvailable) as caught:
            resolve_model(name)
        text = str(caught.value)
        assert text.endswith(f"to fetch that file from Hugging Face{hint}")
        assert "config.json" in text
        assert "allow_model_download: true" in text

    def test_the_error_survives_a_process_boundary(self) -> None:
        error = ModelNotAvailable("'x' is not bundled", "search_space.model_name")
        assert str(pickle.loads(pickle.dumps(error))) == "search_space.model_name: 'x' is not bundled"

    @pytest.mark.parametrize("name", ["", "  "])
    def test_blank(self, name: str) -> None:
        with pytest.raises(InputError, match="AIC model"):
            resolve_model(name)

    def test_unusable_folders(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotAvailable, match=r"not a folder that holds a config\.json"):
            resolve_model(str(tmp_path / "none"))
        (tmp_path / "config.json").write_text('{"architectures": ["NovelForCausalLM"]}')
        with pytest.raises(ModelNotAvailable, match="unusable") as caught:
            resolve_model(str(tmp_path))
        assert "\n" not in str(caught.value)

    def test_bundled_list(self) -> None:
        assert len(bundled_models()) == 85
        assert list(bundled_models()) == sorted(bundled_models())


class TestSystems:
    @pytest.mark.parametrize(
        ("name", "gib", "node", "rack"),
        [
            ("h100_sxm", 80, 8, None),
            ("h200_sxm", 141, 8, None),
            ("b200_sxm", 180, 8, None),
            ("b300_sxm", 268.6, 8, None),
            ("gb200", 185, 4, 72),
            ("gb300", 277.5, 4, 72),
            ("a100_sxm", 80, 8, None),
            ("l40s", 45, 8, None),
            ("rtx_pro_6000_server", 95.6, 8, None),
            ("b60", 24, 8, None),
        ],
    )
    def test_facts(self, name: str, gib: float, node: int, rack: int | None) -> None:
        facts = system_facts(name)
        assert facts.capacity_bytes / GIB == pytest.approx(gib, abs=0.06)
        assert (facts.gpus_per_node, facts.gpus_per_rack) == (node, rack)

    def test_settings_files_are_not_systems(self) -> None:
        for other in ("attention_lane_defaults", "perf_data_reuse_manifest", "query_versions"):
            assert other not in known_systems()
            with pytest.raises(UnknownSystem):
                system_facts(other)

    def test_unknown(self) -> None:
        with pytest.raises(UnknownSystem, match=r"'h200_sxn' must be one of .*did you mean 'h200_sxm'"):
            engine_key("Qwen/Qwen3-32B", "h200_sxn", "vllm")

    def test_own_performance_data(self, tmp_path: Path) -> None:
        folder = str(CONFIGS.parent / "systems")
        key = engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2, systems_path=folder)
        assert key.backend_version == "0.24.0"
        assert known_systems(str(tmp_path)) == ()
        with pytest.raises(UnknownSystem):
            engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", systems_path=str(tmp_path))


class TestVersions:
    @pytest.mark.parametrize(
        ("system", "backend", "requested", "literal"),
        [
            ("h200_sxm", "vllm", None, "0.24.0"),
            ("h200_sxm", "vllm", "current", "0.24.0"),
            ("h200_sxm", "vllm", "next", "0.27.0"),
            ("h200_sxm", "vllm", "0.27.0", "0.27.0"),
            ("gb200", "sglang", None, "0.5.14"),
            ("l40s", "trtllm", None, "1.3.0rc20"),
            ("a100_sxm", "vllm", None, "0.14.0"),
            ("b60", "vllm", "previous", "0.20.0"),
        ],
    )
    def test_slots(self, system: str, backend: str, requested: str | None, literal: str) -> None:
        assert resolve_version(system, backend, requested) == literal

    @pytest.mark.parametrize(
        ("backend", "old"), [("vllm", "0.19.0"), ("sglang", "0.5.10"), ("trtllm", "1.3.0rc10")]
    )
    def test_versions_outside_the_slots_name_the_slots(
        self, backend: str, old: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIC_ALLOW_UNLISTED_VERSIONS", "1")
        with pytest.raises(UnknownBackendVersion, match=f"'{old}' is not available .*current = .*next = "):
            resolve_version("h200_sxm", backend, old)

    def test_alias_without_a_slot(self) -> None:
        with pytest.raises(UnknownBackendVersion, match="'previous' is not available"):
            resolve_version("h200_sxm", "vllm", "previous")

    def test_no_data(self) -> None:
        assert version_slots("l4", "vllm") == {}
        with pytest.raises(UnknownBackendVersion, match="no performance data on b60"):
            resolve_version("b60", "sglang")

    def test_unknown_backend(self) -> None:
        with pytest.raises(InputError, match="did you mean 'sglang'"):
            resolve_version("h200_sxm", "sgang")


class TestDataTypes:
    def test_fp8_attention_falls_back_where_only_bfloat16_has_data(self) -> None:
        key = engine_key("deepseek-ai/DeepSeek-V3", "h200_sxm", "sglang", tp=8, moe_tp=1, moe_ep=8)
        modes = resolve_modes(key)
        assert modes.arguments == {"fmha_quant_mode": "bfloat16"}
        assert modes.effective["gemm_dtype"] == "fp8_block"
        blob = compile_engine_spec(key)
        probe(blob)
        assert [note for note in blob.advisories if "conservative" in note]

    def test_the_users_choice_wins(self) -> None:
        key = engine_key("Qwen/Qwen3-32B", "h200_sxm", "vllm", kv_cache_dtype="fp8", gemm_dtype="fp8")
        modes = resolve_modes(key)
        assert modes.arguments == {"gemm_quant_mode": "fp8", "kvcache_quant_mode": "fp8"}
        assert (modes.effective["gemm_dtype"], modes.effective["moe_dtype"]) == ("fp8", "bfloat16")
        plain = compile_engine_spec(engine_key("Qwen/Qwen3-32B", "h200_sxm", "vllm"))
        assert compile_engine_spec(key).sha256 != plain.sha256

    def test_nvfp4_runs_as_weight_only_off_blackwell(self) -> None:
        key = engine_key("nvidia/Kimi-K2.5-NVFP4", "h200_sxm", "vllm", tp=8, moe_tp=1, moe_ep=8)
        assert resolve_modes(key).effective["moe_dtype"] == "nvfp4_wo"

    def test_fixed_fp8_attention_without_data(self) -> None:
        key = engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", fmha_dtype="fp8")
        with pytest.raises(AicDataGap, match="fmha_dtype: 'fp8'"):
            compile_engine_spec(key)

    def test_unknown_name(self) -> None:
        key = engine_key("Qwen/Qwen3-32B", "h200_sxm", "vllm", moe_dtype="fp9")
        with pytest.raises(InputError, match=r"AIC moe_dtype: 'fp9' must be one of bfloat16, .*did you mean"):
            compile_engine_spec(key)

    def test_suspect_data_are_noted(self) -> None:
        suspect = compile_engine_spec(engine_key("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", tp=2))
        assert [note for note in suspect.advisories if "block-fp8" in note]
        assert compile_engine_spec(engine_key("Qwen/Qwen3-32B", "h200_sxm", "vllm")).advisories == ()


class TestFeasibility:
    def test_mixture_of_experts_needs_its_sizes(self) -> None:
        with pytest.raises(InputError, match="AIC moe_tp, moe_ep"):
            engine_key("deepseek-ai/DeepSeek-V3", "h200_sxm", "sglang", tp=8)

    @pytest.mark.parametrize(
        ("model", "system", "backend", "fields", "kind"),
        [
            ("Qwen/Qwen3-32B-FP8", "h200_sxm", "vllm", {"tp": 3}, ShapeNotViable),
            (
                "MiniMaxAI/MiniMax-M2.5",
                "b200_sxm",
                "vllm",
                {"tp": 8, "moe_tp": 8, "moe_ep": 1},
                ShapeNotViable,
            ),
            ("Qwen/Qwen3-32B-FP8", "a100_sxm", "vllm", {}, AicUnsupportedDtype),
            (
                "zai-org/GLM-5-FP8",
                "h200_sxm",
                "trtllm",
                {"tp": 8, "moe_tp": 1, "moe_ep": 8},
                AicDataGap,
            ),
        ],
    )
    def test_probe_finds_what_cannot_be_timed(
        self, model: str, system: str, backend: str, fields: dict[str, int], kind: type[Exception]
    ) -> None:
        key = engine_key(model, system, backend, **fields)
        with pytest.raises(kind) as caught:
            probe(compile_engine_spec(key))
        assert str(caught.value).startswith(f"{model} on {system} with {backend} ")
