/**
 * Decides about deliveries and starts their runs, until it is closed. Several processes may do this at once, and each
 * may die at any time: a claim ends after a time, and another process continues.
 */
import { randomUUID } from 'node:crypto';
import { createDecide } from '../../domain/delivery/decide.ts';
import { API_TRIGGER } from '../../domain/delivery/delivery.ts';
import { API_RULES, type Trigger } from '../../domain/delivery/trigger.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { findRunOutput } from '../../domain/sources/run-output.ts';
import { readFileRef } from '../../domain/sources/file-payload.ts';
import { cutText } from '../../domain/units/cut-text.ts';
import type {
  Claim,
  DeliveryMember,
  DeliveryResult,
  DeliveryRow,
  TriggerStore,
  VersionRow,
} from '../../store/triggers.ts';
import { type ClaimResult, startClaimLoop } from '../claim-loop.ts';
import type { Loop } from '../loop.ts';
import { cancelOldest, type CancelRun } from '../schedules/cancel-oldest.ts';
import type { EvaluateDelivery } from './evaluate-delivery.ts';
import { joinPayloads } from './join-payloads.ts';
import { createKnownVersions, type FindVersion } from './known-versions.ts';

/** A delivery whose run starts. */
export interface ReadyDelivery {
  readonly delivery: DeliveryRow;
  readonly version: VersionRow;
  readonly params: Readonly<Record<string, string>>;
  readonly input: Uint8Array;
  /** The artifact that is the input instead of `input`; null: none is. */
  readonly inputRef: DataRef | null;
}

export interface PumpOptions {
  /** Null: there is no database yet. */
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly evaluate: EvaluateDelivery;
  readonly start: (ready: ReadyDelivery) => Promise<DeliveryResult>;
  /** Asks a run to end, and does not wait for that. It never rejects. */
  readonly cancelRun: CancelRun;
  readonly nowMs: () => number;
  readonly log: (line: string) => void;
  /** Called after the last due delivery is decided. */
  readonly onIdle: (triggers: TriggerStore) => Promise<void>;
  /** Other limits are for tests. */
  readonly limits?: Readonly<Record<keyof typeof PUMP_LIMITS, number>>;
}

export const PUMP_LIMITS = {
  /** Deliveries that a process has claimed. */
  atOnce: 32,
  /** Runs that a process starts at once. */
  starts: 8,
  /** A process that does not renew its claims for this long is taken for dead. */
  leaseMs: 15_000,
  renewMs: 4_000,
  /** The pause between two looks, if no call of `wake` ends it. */
  idleMs: 5_000,
  /** The pause after a failure of the database. */
  failureMs: 2_000,
} as const;

/** `wake`: a delivery may be due. */
export type Pump = Loop;

export function startPump(options: PumpOptions): Pump {
  const { nowMs, limits = PUMP_LIMITS } = options;
  const findVersion = createKnownVersions();
  const takeTurn = createTurns();
  const start = limitStarts(options.start, limits.starts);
  const working = new Set<Promise<void>>();
  let undecided = 0;
  const beginWork = (
    delivery: DeliveryRow,
    token: string,
    { triggers, bodies }: Pick<Work, 'triggers' | 'bodies'>,
  ): void => {
    const turn = takeTurn(delivery);
    let isDecided = false;
    const onDecided = (): void => {
      turn.end();
      if (isDecided) return;
      isDecided = true;
      undecided -= 1;
      if (undecided === 0) loop.wake();
    };
    undecided += 1;
    const tools = { triggers, bodies, findVersion, start, options, turn, onDecided };
    const worked = processDelivery(delivery, { id: delivery.id, token }, tools).finally(() => {
      working.delete(worked);
      onDecided();
      // Its outcome may have made another one due, and there is room for it.
      loop.wake();
    });
    working.add(worked);
  };
  const claim = async (triggers: TriggerStore): Promise<ClaimResult> => {
    const limit = limits.atOnce - working.size;
    // Those that arrive until the claimed ones are decided are claimed together: a burst needs few transactions.
    if (limit === 0 || undecided > 0) return 'full';
    const { deliveries } = triggers;
    const token = randomUUID();
    const claimed = await deliveries.claim({ token, nowMs: nowMs(), leaseMs: limits.leaseMs, limit });
    if (claimed.length === 0) return working.size === 0 ? 'none' : 'none-yet';
    const bodies = deliveries.readBodies(claimed.map(({ id }) => id));
    // Each delivery has its own failure.
    bodies.catch(() => undefined);
    for (const delivery of claimed) beginWork(delivery, token, { triggers, bodies });
    return 'some';
  };
  const loop = startClaimLoop({
    ...options,
    what: 'deliveries',
    limits,
    beginsBusy: true,
    wakesBusy: false,
    claim,
    findNextDue: async ({ deliveries }, atMs) => await deliveries.findNextDue(atMs),
  });
  return {
    wake: loop.wake,
    async close() {
      await loop.close();
      await Promise.all(working);
    },
  };
}

interface Work {
  readonly triggers: TriggerStore;
  readonly options: PumpOptions;
  readonly start: PumpOptions['start'];
  readonly findVersion: FindVersion;
  /** Those of the deliveries that were claimed together. */
  readonly bodies: Promise<ReadonlyMap<string, Uint8Array | null>>;
  readonly turn: Turn;
  /** The delivery has its decision, or fails. */
  readonly onDecided: () => void;
}

/** Further starts wait for the end of an earlier one. */
function limitStarts(start: PumpOptions['start'], most: number): PumpOptions['start'] {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (ready) => {
    if (running === most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await start(ready);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

/** The place of a delivery among those of its trigger. */
interface Turn {
  /** Ends when the store has the request of each earlier one for a decision, or it has failed. */
  readonly before: Promise<void>;
  end(): void;
}

/** Expressions are evaluated at once, but groups, rates and orders need decisions in the order of acceptance. */
function createTurns(): (delivery: DeliveryRow) => Turn {
  const latest = new Map<string, Promise<void>>();
  return ({ deployment, trigger }) => {
    const key = JSON.stringify([deployment, trigger]);
    const before = latest.get(key) ?? Promise.resolve();
    let resolveTurn: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (resolveTurn = resolve));
    latest.set(key, ended);
    const end = (): void => {
      resolveTurn();
      if (latest.get(key) === ended) latest.delete(key);
    };
    return { before, end };
  };
}

/** Never rejects: a failure is the result of this try. */
async function processDelivery(delivery: DeliveryRow, claim: Claim, work: Work): Promise<void> {
  const { triggers, options } = work;
  const { nowMs, log, limits = PUMP_LIMITS } = options;
  // The first start on a machine may fetch what its VMs lack.
  const renewing = setInterval(() => {
    const lease = { nowMs: nowMs(), leaseMs: limits.leaseMs };
    // A claim that cannot be renewed ends after its lease, and another process continues.
    triggers.deliveries.renew(claim, lease).catch(() => undefined);
  }, limits.renewMs).unref();
  try {
    const result = await decideAndStart(delivery, claim, work);
    if (result !== null) await triggers.deliveries.record(claim, result, nowMs());
  } catch (error) {
    const { message } = error as Error;
    log(`delivery ${delivery.id}: ${message}`);
    // If the database does not answer, the claim ends after its lease.
    const failed = { kind: 'failed', code: 'api/bug', message: cutText(message) } as const;
    await triggers.deliveries.record(claim, failed, nowMs()).catch(() => undefined);
  } finally {
    clearInterval(renewing);
  }
}

/** @returns null: the delivery has no run that starts now */
async function decideAndStart(
  delivery: DeliveryRow,
  claim: Claim,
  { triggers, options, start, findVersion, bodies, turn, onDecided }: Work,
): Promise<DeliveryResult | null> {
  const { deployments, deliveries } = triggers;
  const version = await findVersion(deployments)(delivery.deployment, delivery.version);
  const trigger = version === null ? null : findTrigger(version, delivery.trigger);
  if (version === null || trigger === null)
    return refuse('trigger/unknown', `version ${delivery.version} has no trigger ${delivery.trigger}`);
  const body = (await bodies).get(delivery.id) ?? null;
  if (body === null) return refuse('trigger/payload-deleted', 'payloads are kept for 7 days');
  const evaluation = await options.evaluate(trigger, delivery, body);
  if ('code' in evaluation) return refuse(evaluation.code, evaluation.message);
  await turn.before;
  const deciding = deliveries.decide({
    ...claim,
    nowMs: options.nowMs(),
    leaseMs: (options.limits ?? PUMP_LIMITS).leaseMs,
    trigger,
    keys: evaluation.keys,
    decide: createDecide({ trigger, evaluation }),
  });
  // The store decides in the order of the calls.
  turn.end();
  const decided = await deciding;
  onDecided();
  if (decided !== null) await cancelOldest(decided, trigger, triggers, options.cancelRun);
  if (decided === null || decided.state !== 'starting') return null;
  const params = { ...evaluation.params, ...delivery.params };
  if (trigger.batch === null) {
    const input = evaluation.input === null ? body : Buffer.from(evaluation.input);
    const inputRef = evaluation.input === null ? findInputRef(trigger, body) : null;
    if (typeof inputRef === 'string') return refuse('trigger/no-output', inputRef);
    return await start({ delivery: decided, version, params, input, inputRef });
  }
  const members = await deliveries.listMembers(delivery.id);
  const inputs = await evaluateMembers(members, trigger, options.evaluate);
  return inputs === null
    ? refuse('trigger/payload-deleted', 'payloads are kept for 7 days')
    : await start({ delivery: decided, version, params, input: joinPayloads(inputs), inputRef: null });
}

/**
 * The input of a run that a file starts is the file, and its payload is the facts about it. The end of a run names
 * outputs in the same way.
 * @returns null: the input is the payload; a text says why there is no input
 */
function findInputRef({ source }: Trigger, body: Uint8Array): DataRef | null | string {
  const readText = (): string => Buffer.from(body).toString('utf8');
  if (source.kind === 'folder') return readFileRef(readText());
  return source.kind === 'run' && source.output !== undefined ? findRunOutput(readText(), source.output) : null;
}

function findTrigger({ triggers }: VersionRow, name: string): Trigger | null {
  return name === API_TRIGGER ? API_RULES : (triggers.find((trigger) => trigger.name === name) ?? null);
}

/** Returns the input of each delivery of a batch; null: a payload is deleted. */
async function evaluateMembers(
  members: readonly DeliveryMember[],
  trigger: Trigger,
  evaluate: EvaluateDelivery,
): Promise<Parameters<typeof joinPayloads>[0] | null> {
  const inputs: { bytes: Uint8Array; contentType: string }[] = [];
  for (const { delivery, body } of members) {
    if (body === null) return null;
    const evaluation = trigger.input === null ? null : await evaluate(trigger, delivery, body);
    const input = evaluation === null || 'code' in evaluation ? null : evaluation.input;
    inputs.push(
      input === null
        ? { bytes: body, contentType: delivery.contentType }
        : { bytes: Buffer.from(input), contentType: 'application/json' },
    );
  }
  return inputs;
}

function refuse(code: string, message: string): DeliveryResult {
  return { kind: 'refused', code, message };
}
