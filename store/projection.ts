/** A run as people look at it, folded from its events. Pure: the same events give the same view everywhere. */
import type { IsolationLevel } from '../domain/plan/plan.ts';
import type { RunEvent, RunOutcome } from '../domain/run/event.ts';
import { type StageFailure, toStageResult } from '../domain/run/stage-result.ts';

export interface RunView {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly hostId: string;
  /** `damaged` is no event: whoever reads a run says it with `withDamage`. */
  readonly state: 'running' | RunOutcome['state'] | 'damaged';
  /** In the order of the spec; a stage that no admission named stands after them. */
  readonly stages: readonly StageView[];
  /** In the order of their first start. */
  readonly vms: readonly VmView[];
  readonly notices: readonly NoticeView[];
  /** Whose output is the result; null: merged of several; '' before the admission. */
  readonly outputStage: string | null;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly outcome: RunOutcome | null;
  /** Cursor of the last event that was folded in. */
  readonly seq: number;
  /** What of the run's files is not what was written; what else the view says was read before that. */
  readonly damage: string | null;
}

export type StageState =
  | 'waiting'
  | 'running'
  /** It waits for an answer. */
  | 'asking'
  | 'retrying'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'skipped'
  | 'passed';

export interface StageView {
  readonly id: string;
  readonly dependsOn: readonly string[];
  readonly state: StageState;
  /** The latest attempt's; '' before the first. */
  readonly execKey: string;
  /** From 1; 0 before the first start. */
  readonly attempt: number;
  readonly startedAtMs: number | null;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly failure: StageFailure | null;
  /** Why it was skipped, is tried again, or was taken over. */
  readonly reason: string | null;
  readonly isolation: IsolationLevel | null;
  readonly accelerator: string | null;
  /** What the latest attempt took, once it has ended, by names with their units. */
  readonly usage: Readonly<Record<string, number>>;
  /** Bytes that the latest attempt printed, on both streams, before redaction. */
  readonly outputBytes: number;
  /** How often another worker took the command over. */
  readonly reattached: number;
}

export interface VmView {
  readonly vmKey: string;
  readonly scope: string;
  readonly generation: number;
  readonly state: 'starting' | 'ready' | 'lost' | 'stopped';
  readonly isolation: IsolationLevel | null;
  readonly accelerator: string | null;
  readonly kernel: string | null;
  readonly jail: string | null;
  readonly bootMs: number | null;
  /** Why it was lost. */
  readonly reason: string | null;
}

export interface NoticeView {
  readonly atMs: number;
  readonly level: 'info' | 'warning';
  readonly message: string;
}

/** A run of which nothing is known but its id. */
export function emptyView(runId: string): RunView {
  return {
    runId,
    name: '',
    kind: '',
    hostId: '',
    state: 'running',
    stages: [],
    vms: [],
    notices: [],
    outputStage: '',
    startedAtMs: null,
    finishedAtMs: null,
    outcome: null,
    seq: 0,
    damage: null,
  };
}

export function withDamage(view: RunView, damage: string): RunView {
  return { ...view, state: 'damaged', damage };
}

/**
 * Folds one event in. An event that says what is known already changes nothing, one of a type that this
 * build does not know only moves the cursor, and what comes late never takes a later fact back.
 */
export function project(view: RunView, event: RunEvent): RunView {
  const next = fold(view, event);
  return { ...next, seq: Math.max(view.seq, event.seq) };
}

function fold(view: RunView, { atMs, body }: RunEvent): RunView {
  switch (body.type) {
    case 'run-admitted': {
      const early = new Map(view.stages.map((stage) => [stage.id, stage]));
      const named = body.stages.map(({ id, dependsOn }) => ({ ...(early.get(id) ?? newStage(id)), dependsOn }));
      const names = new Set(body.stages.map((stage) => stage.id));
      const others = view.stages.filter((stage) => !names.has(stage.id));
      return {
        ...view,
        name: body.name,
        kind: body.kind,
        hostId: body.hostId,
        outputStage: body.outputStage,
        stages: [...named, ...others],
        startedAtMs: atMs,
      };
    }
    case 'run-resumed':
      return withNotice(view, { atMs, level: 'info', message: `resumed by ${body.by}` });
    case 'run-finished':
      return view.outcome !== null
        ? view
        : {
            ...view,
            state: body.outcome.state,
            outcome: body.outcome,
            finishedAtMs: atMs,
            stages: view.stages.map((stage) => settle(stage, body.outcome, atMs)),
          };
    case 'vm-starting':
      return withVm(view, body, (vm) => vm);
    case 'vm-ready': {
      const { isolation, accelerator, kernel, jail, bootMs } = body;
      return withVm(view, body, (vm) => ({
        ...vm,
        state: vm.state === 'starting' ? 'ready' : vm.state,
        isolation,
        accelerator,
        kernel,
        jail,
        bootMs,
      }));
    }
    case 'vm-lost':
      return withVm(view, body, (vm) => ({ ...vm, state: 'lost', reason: body.reason }));
    case 'vm-stopped':
      return withVm(view, body, (vm) => ({ ...vm, state: vm.state === 'lost' ? 'lost' : 'stopped' }));
    case 'scope-restarted':
      return withNotice(view, {
        atMs,
        level: 'warning',
        message: `VM scope ${body.scope} starts again (${body.reason}); stages that run again: ${body.stages.join(', ')}`,
      });
    case 'stage-started':
      return withStage(view, body.stage, (stage) => started(stage, body.execKey, body.attempt, atMs));
    case 'stage-reattached':
      return withStage(view, body.stage, (stage) => ({
        ...stage,
        reattached: stage.reattached + 1,
        reason:
          stage.state === 'running' && !isStale(stage, body.execKey) ? (body.reason ?? stage.reason) : stage.reason,
      }));
    case 'output':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, outputBytes: stage.outputBytes + body.to - body.from },
      );
    case 'stage-finished': {
      const result = toStageResult(body.result);
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey)
          ? stage
          : {
              ...stage,
              state: result.outcome,
              execKey: body.execKey,
              durationMs: result.durationMs,
              exitCode: result.command?.exitCode ?? null,
              failure: result.failure,
              reason: null,
              isolation: result.vm?.isolation ?? null,
              accelerator: result.vm?.accelerator ?? null,
              usage: result.usage,
              outputBytes: Math.max(
                stage.outputBytes,
                (result.command?.stdoutBytes ?? 0) + (result.command?.stderrBytes ?? 0),
              ),
            },
      );
    }
    case 'stage-retrying':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey) ? stage : { ...stage, state: 'retrying', reason: body.reason },
      );
    case 'stage-asking':
      return withStage(view, body.stage, (stage) =>
        asAsking(started(stage, body.execKey, body.attempt, atMs), body.execKey),
      );
    case 'stage-answered':
      return withStage(view, body.stage, (stage) =>
        isStale(stage, body.execKey)
          ? stage
          : {
              ...stage,
              state: body.outcome,
              execKey: body.execKey,
              durationMs: stage.startedAtMs === null ? null : Math.max(0, atMs - stage.startedAtMs),
              failure: body.failure,
              reason: null,
            },
      );
    case 'stage-skipped':
      return withStage(view, body.stage, (stage) =>
        stage.state === 'waiting' ? { ...stage, state: 'skipped', reason: body.reason } : stage,
      );
    case 'notice':
      return withNotice(view, { atMs, level: body.level, message: body.message });
    default:
      return view;
  }
}

/** A stage of which nothing is known but its name. */
export function newStage(id: string): StageView {
  return {
    id,
    dependsOn: [],
    state: 'waiting',
    execKey: '',
    attempt: 0,
    startedAtMs: null,
    durationMs: null,
    exitCode: null,
    failure: null,
    reason: null,
    isolation: null,
    accelerator: null,
    usage: {},
    outputBytes: 0,
    reattached: 0,
  };
}

/** An attempt is known by its number; a late start of an attempt that ended already brings only its time. */
function started(stage: StageView, execKey: string, attempt: number, atMs: number): StageView {
  if (attempt < stage.attempt) return stage;
  if (stage.execKey === execKey)
    return {
      ...stage,
      attempt,
      startedAtMs: stage.startedAtMs ?? atMs,
      state: stage.state === 'waiting' ? 'running' : stage.state,
    };
  return { ...newStage(stage.id), dependsOn: stage.dependsOn, state: 'running', execKey, attempt, startedAtMs: atMs };
}

function asAsking(stage: StageView, execKey: string): StageView {
  return stage.execKey === execKey && stage.state === 'running' ? { ...stage, state: 'asking' } : stage;
}

/** Of an earlier attempt than the one that the view shows. */
function isStale(stage: StageView, execKey: string): boolean {
  return stage.execKey !== '' && stage.execKey !== execKey && attemptOf(execKey) < attemptOf(stage.execKey);
}

/** The number at the end of `<stage>/<item>/<attempt>`. */
function attemptOf(execKey: string): number {
  const attempt = Number(execKey.slice(execKey.lastIndexOf('/') + 1));
  return Number.isSafeInteger(attempt) ? attempt : 0;
}

/** A run that has ended has no stage that waits or runs. */
function settle(stage: StageView, outcome: RunOutcome, atMs: number): StageView {
  if (stage.state === 'waiting')
    return { ...stage, state: 'skipped', reason: stage.reason ?? `the run ended: ${outcome.state}` };
  if (stage.state !== 'running' && stage.state !== 'asking' && stage.state !== 'retrying') return stage;
  const durationMs = stage.startedAtMs === null ? null : Math.max(0, atMs - stage.startedAtMs);
  return { ...stage, state: outcome.state === 'failed' ? 'failed' : 'cancelled', durationMs };
}

function withStage(view: RunView, id: string, change: (stage: StageView) => StageView): RunView {
  const index = view.stages.findIndex((stage) => stage.id === id);
  const stage = view.stages[index];
  if (stage === undefined) return { ...view, stages: [...view.stages, change(newStage(id))] };
  const changed = change(stage);
  return changed === stage ? view : { ...view, stages: view.stages.with(index, changed) };
}

function withVm(
  view: RunView,
  identity: { readonly vmKey: string; readonly scope: string; readonly generation: number },
  change: (vm: VmView) => VmView,
): RunView {
  const index = view.vms.findIndex((vm) => vm.vmKey === identity.vmKey);
  const vm = view.vms[index] ?? {
    vmKey: identity.vmKey,
    scope: identity.scope,
    generation: identity.generation,
    state: 'starting',
    isolation: null,
    accelerator: null,
    kernel: null,
    jail: null,
    bootMs: null,
    reason: null,
  };
  const changed = change(vm);
  return { ...view, vms: index === -1 ? [...view.vms, changed] : view.vms.with(index, changed) };
}

function withNotice(view: RunView, notice: NoticeView): RunView {
  return { ...view, notices: [...view.notices, notice] };
}
