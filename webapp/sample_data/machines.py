"""The machines of the simulated jobs."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.wire import Gpu, NodeFacts

from webapp.sample_data.simulation import GIB, sample_id


@dataclass(frozen=True)
class SampleMachine:
    """One type of EC2 instance in us-east-1."""

    instance_type: str
    vcpus: int
    memory_gib: int
    cpu_model: str
    gpus: int = 0
    gpu_model: str = ""
    gpu_memory_gib: int = 0
    gpu_watts: tuple[float, float] = (0.0, 0.0)
    """The watts when idle, and the further ones at 100 %."""

    def facts(self, number: int, *names: object) -> NodeFacts:
        """Return the facts of the machine with that number, from 0; `names` tell it from other
        jobs' machines.
        """
        machine = sample_id(*names, "machine", *([number] if number else [])).hex[:17]
        return NodeFacts(
            machine_id=f"i-{machine}",
            hostname=f"training-{number + 1}",
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type=self.instance_type,
            vcpus=self.vcpus,
            effective_cpus=float(self.vcpus),
            memory_bytes=self.memory_gib * GIB,
            effective_memory_bytes=self.memory_gib * GIB,
            cpu_model=self.cpu_model,
            gpus=[
                Gpu(self.gpu_model, self.gpu_memory_gib * GIB, f"GPU-{sample_id(machine, card)}")
                for card in range(self.gpus)
            ],
        )


_A10G = "NVIDIA A10G", 24, (58.0, 210.0)
_T4 = "Tesla T4", 15, (28.0, 42.0)
_V100 = "Tesla V100-SXM2-16GB", 16, (42.0, 190.0)
G5_XLARGE = SampleMachine("g5.xlarge", 4, 16, "AMD EPYC 7R32", 1, *_A10G)
G5_12XLARGE = SampleMachine("g5.12xlarge", 48, 192, "AMD EPYC 7R32", 4, *_A10G)
G4DN_XLARGE = SampleMachine("g4dn.xlarge", 4, 16, "Intel Xeon Platinum 8259CL", 1, *_T4)
G4DN_2XLARGE = SampleMachine("g4dn.2xlarge", 8, 32, "Intel Xeon Platinum 8259CL", 1, *_T4)
P3_8XLARGE = SampleMachine("p3.8xlarge", 32, 244, "Intel Xeon E5-2686 v4", 4, *_V100)
C5_4XLARGE = SampleMachine("c5.4xlarge", 16, 32, "Intel Xeon Platinum 8124M")
