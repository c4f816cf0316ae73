/** The pool of a worker: VMs of QEMU that wait until a launch takes them (docs/reference/keeper.md, "VMs that wait"). */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { SANDBOX_DEFAULTS } from '../domain/plan/defaults.ts';
import { formatWarmShape, type WarmCount, type WarmShape } from '../domain/plan/warm-shape.ts';
import { askVmStatus, type MicroVm, POOL_PREFIX } from '../native/index.ts';
import type { LaunchVm } from './micro-vm/launch.ts';

const ROUND_MS = 2_000;
/** No VM is added for this time after a launch, so that it slows no stage. */
const AFTER_LAUNCH_MS = 5_000;
/** The pause after a VM could not be added. */
const FAILED_MS = 60_000;
/** The lease of a VM that waits; its tie renews it. */
const LEASE_MS = 60_000;
const ASK_LIMIT_MS = 5_000;
const STOP_LIMIT_MS = 10_000;

export interface WarmVmsOptions {
  readonly counts: readonly WarmCount[];
  readonly vmsDir: string;
  readonly launch: LaunchVm;
  /** Whether the disk has no room for another VM. */
  readonly isDiskLow: () => boolean;
  /** Identifies the files that the key of a snapshot contains. A launch takes no VM that has others. */
  readonly identify: () => Promise<string>;
  readonly log: (text: string) => void;
  readonly now?: () => number;
}

export interface WarmVms {
  /** Begins to keep the VMs. */
  start(): void;
  /** Called at each launch of the worker. */
  noteLaunch(): void;
  /** One look at the VMs, which adds those that are missing. */
  check(): Promise<void>;
  /** Ends the VMs that no launch has taken. */
  close(): Promise<void>;
}

interface WarmVm {
  readonly shape: string;
  readonly dir: string;
  readonly vm: MicroVm;
  /** The files of its snapshot. */
  readonly files: string;
}

export function createWarmVms({
  counts,
  vmsDir,
  launch,
  isDiskLow,
  identify,
  log,
  now = Date.now,
}: WarmVmsOptions): WarmVms {
  let vms: readonly WarmVm[] = [];
  let notBeforeMs = 0;
  let lastProblem: string | null = null;
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> = Promise.resolve();
  const closing = new AbortController();

  const add = async (shape: WarmShape): Promise<void> => {
    const name = `${POOL_PREFIX}${randomBytes(8).toString('hex')}`;
    const dir = join(vmsDir, name);
    const text = formatWarmShape(shape);
    const files = await identify();
    const { vm } = await launch(
      {
        name,
        dir,
        what: `a VM that waits (${text})`,
        spec: {
          ...SANDBOX_DEFAULTS,
          mode: 'qemu',
          memoryMib: shape.memoryMib,
          vcpus: shape.vcpus,
          ...(shape.image === 'dev' ? { image: { kind: 'dev' as const } } : {}),
          ...(shape.layers.length === 0 ? {} : { layers: shape.layers }),
        },
        extra: { waits: true, orphanTimeoutMs: LEASE_MS, note: { shape: text } },
      },
      closing.signal,
    );
    vms = [...vms, { shape: text, dir, vm, files }];
    await vm.tie(false);
  };

  const check = async (): Promise<void> => {
    // While a file is missing, no launch could make a VM, so those that wait stay.
    const files = await identify().catch(() => null);
    const looked = await Promise.all(vms.map(async (each) => ({ each, waits: await isWaiting(each.dir) })));
    const isOutdated = (each: WarmVm): boolean => files !== null && each.files !== files;
    vms = looked.filter(({ each, waits }) => waits && !isOutdated(each)).map(({ each }) => each);
    for (const { each, waits } of looked) {
      if (!waits) each.vm.close();
      else if (isOutdated(each)) await endWaiting(each.vm);
    }
    if (now() < notBeforeMs || closing.signal.aborted || isDiskLow()) return;
    const missing = counts.find(
      ({ shape, count }) => vms.filter((each) => each.shape === formatWarmShape(shape)).length < count,
    );
    if (missing === undefined) return;
    try {
      await add(missing.shape);
      lastProblem = null;
    } catch (error) {
      notBeforeMs = now() + FAILED_MS;
      const problem = isCodedError(error) ? `${error.message} (${error.code})` : String(error);
      if (!closing.signal.aborted && problem !== lastProblem) log(`no VM waits for stages: ${problem}`);
      lastProblem = problem;
    }
  };

  const begin = (): Promise<void> => {
    running = running.then(check);
    return running;
  };

  return {
    start() {
      timer ??= setInterval(() => void begin(), ROUND_MS).unref();
      void begin();
    },
    noteLaunch() {
      notBeforeMs = Math.max(notBeforeMs, now() + AFTER_LAUNCH_MS);
    },
    check: begin,
    async close() {
      closing.abort();
      if (timer !== null) clearInterval(timer);
      await running;
      await Promise.all(vms.map(({ vm }) => endWaiting(vm)));
      vms = [];
    },
  };
}

/** Whether the VM still belongs to the pool. A keeper that does not answer has ended, or its folder has another name. */
async function isWaiting(dir: string): Promise<boolean> {
  try {
    const { state } = await askVmStatus(dir, AbortSignal.timeout(ASK_LIMIT_MS));
    return state === 'waiting' || state === 'booting';
  } catch {
    return false;
  }
}

/** A launch that takes the VM at this moment has a higher fence, and keeps it. */
async function endWaiting(vm: MicroVm): Promise<void> {
  const limit = new Promise<void>((resolve) => setTimeout(resolve, STOP_LIMIT_MS).unref());
  await Promise.race([vm.stop().catch(() => undefined), limit]);
  vm.close();
}
