/** Samples of the VMs of a run: one for each attempt that has ended in a VM, because a host measures a VM then. */
import type { Plan } from '../../domain/plan/plan.ts';
import { stageNameOf } from '../../domain/run/attempt.ts';
import type { RunEvent, RunEventBody } from '../../domain/run/event.ts';
import { type NetworkView, withNotice } from '../../store/network-view.ts';
import type { Machine } from '../machine.ts';
import { readPlan } from './read-run.ts';

const BYTES_PER_MIB = 1024 * 1024;

/** A gauge without a measured value is absent. */
export interface GuestSample {
  /** The average since the VM began to boot; 100 is one CPU. */
  readonly cpu_percent?: number;
  /** The most that the VM used. */
  readonly memory_used_bytes?: number;
  readonly memory_total_bytes?: number;
  /** Through the door of the VM. */
  readonly net_rx_bytes: number;
  readonly net_tx_bytes: number;
}

export interface TelemetrySample {
  /** Increases in a run, with gaps. */
  readonly seq: number;
  readonly timestamp_ms: number;
  readonly timestamp: string;
  readonly stage_name: string;
  readonly guest: GuestSample;
}

export interface Telemetry {
  readonly samples: readonly TelemetrySample[];
  /** The `fromSeq` that has all later samples. */
  readonly nextSeq: number;
}

export async function readTelemetry(
  runId: string,
  { fromSeq, stage }: { readonly fromSeq: number; readonly stage: string | null },
  context: Machine,
): Promise<Telemetry> {
  const { reader } = await context.stores();
  const vms = new VmFacts(await readPlan(runId, context));
  const samples: TelemetrySample[] = [];
  let nextSeq = fromSeq;
  for await (const event of reader.read(runId, 0, { output: false })) {
    vms.note(event);
    const sample = vms.sample(event);
    if (sample === null || sample.seq < fromSeq) continue;
    nextSeq = sample.seq + 1;
    if (stage === null || sample.stage_name === stage) samples.push(sample);
  }
  return { samples, nextSeq };
}

type ReadyBody = Extract<RunEventBody, { readonly type: 'vm-ready' }>;

class VmFacts {
  readonly #scopes: ReadonlyMap<string, { readonly scope: string; readonly memoryMib: number }>;
  /** The latest VM of a scope. */
  readonly #ready = new Map<string, ReadyBody & { readonly atMs: number }>();
  readonly #network = new Map<string, NetworkView>();

  constructor(plan: Plan | null) {
    const memory = new Map((plan?.scopes ?? []).map(({ id, sandbox }) => [id, sandbox.memoryMib]));
    this.#scopes = new Map(
      (plan?.stages ?? []).flatMap(({ id, scope }) =>
        scope === null ? [] : [[id, { scope, memoryMib: memory.get(scope) ?? 0 }] as const],
      ),
    );
  }

  note({ atMs, body }: RunEvent): void {
    if (body.type === 'vm-ready') this.#ready.set(body.scope, { ...body, atMs });
    else if (body.type === 'network')
      this.#network.set(body.vmKey, withNotice(this.#network.get(body.vmKey), body, atMs));
  }

  sample({ atMs, seq, body }: RunEvent): TelemetrySample | null {
    if (body.type !== 'stage-finished' || body.result.vm === null) return null;
    const { vmCpuMs, vmMemoryPeakMib } = body.result.usage;
    const known = this.#scopes.get(body.stage);
    const ready = known === undefined ? undefined : this.#ready.get(known.scope);
    const lifeMs = ready === undefined ? 0 : atMs - ready.atMs + ready.bootMs;
    const { told, counted } = (ready === undefined ? undefined : this.#network.get(ready.vmKey)) ?? {};
    const guest: GuestSample = {
      ...(vmCpuMs === undefined || lifeMs <= 0 ? {} : { cpu_percent: (vmCpuMs / lifeMs) * 100 }),
      ...(vmMemoryPeakMib === undefined ? {} : { memory_used_bytes: vmMemoryPeakMib * BYTES_PER_MIB }),
      ...(known === undefined ? {} : { memory_total_bytes: known.memoryMib * BYTES_PER_MIB }),
      net_rx_bytes: (told?.receivedBytes ?? 0) + (counted?.receivedBytes ?? 0),
      net_tx_bytes: (told?.sentBytes ?? 0) + (counted?.sentBytes ?? 0),
    };
    return { seq, timestamp_ms: atMs, timestamp: new Date(atMs).toISOString(), stage_name: stageNameOf(body), guest };
  }
}
