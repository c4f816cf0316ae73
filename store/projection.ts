/** A run as people see it, folded from its events. Pure: the same events give the same view everywhere. */
import { NO_USE } from '../domain/agent/budget.ts';
import type { RunEvent, RunEventBody, RunOutcome } from '../domain/run/event.ts';
import { withUse } from './budget-view.ts';
import { withNotice as withDoorNotice } from './network-view.ts';
import { newStage, type NoticeView, type RunView, type StageView, type VmView } from './run-view.ts';
import { itemOf, projectItem } from './item-projection.ts';
import { isStageEvent, projectStage, settle } from './stage-projection.ts';

type VmEventBody = Extract<RunEventBody, { type: 'vm-starting' | 'vm-ready' | 'vm-lost' | 'vm-stopped' | 'network' }>;

/**
 * Folds one event in. An event with known facts changes nothing. An event of an unknown type only moves the cursor. A
 * late event never undoes a later fact.
 */
export function project(view: RunView, event: RunEvent): RunView {
  const next = fold(view, event);
  return { ...next, seq: Math.max(view.seq, event.seq) };
}

function fold(before: RunView, { atMs, body }: RunEvent): RunView {
  const used = before.budget === undefined ? before : { ...before, budget: withUse(before.budget, body) };
  const view = body.type === 'stage-progress' && used.hasSaves !== true ? { ...used, hasSaves: true as const } : used;
  const item = itemOf(body);
  if (item !== null)
    return withStage(view, item.stage, (stage) =>
      // In a loop the view shows the items of the latest visit.
      item.attempt < stage.attempt ? stage : projectItem(stage, item, body),
    );
  if (isStageEvent(body)) return withStage(view, body.stage, (stage) => projectStage(stage, body, atMs));
  switch (body.type) {
    case 'run-admitted':
      return applyAdmission(view, body, atMs);
    case 'run-resumed':
      return withNotice(view, { atMs, level: 'info', message: `resumed by ${body.by}` });
    case 'run-finished':
      return applyRunEnd(view, body.outcome, atMs);
    case 'vm-starting':
    case 'vm-ready':
    case 'vm-lost':
    case 'vm-stopped':
    case 'network':
      return withVm(view, body, (vm) => projectVm(vm, body, atMs));
    case 'scope-restarted':
      return withNotice(applyRestart(view, body), {
        atMs,
        level: 'warning',
        message: `VM scope ${body.scope} starts again (${body.reason})${body.stages.length === 0 ? '' : `; stages that run again: ${body.stages.join(', ')}`}${body.kept === undefined ? '' : `; a checkpoint holds ${body.kept.join(', ')}`}`,
      });
    case 'loop-visited':
      return applyVisit(view, body);
    case 'stage-resumed':
      return withStage(view, body.stage, (stage) => applyResume(stage, body, view.runId));
    case 'checkpoint-failed':
      return withNotice(view, {
        atMs,
        level: 'warning',
        message: `no checkpoint was made after stage ${body.stage}: ${body.reason}`,
      });
    case 'notice':
      return withNotice(view, { atMs, level: body.level, message: body.message });
    // The log contains them; their costs arrive as `agent-usage`.
    case 'agent-text':
    case 'agent-tool':
    case 'agent-tool-output':
    case 'agent-asked':
    case 'stage-progress':
    case 'skill-step':
    case 'checkpoint-made':
    default:
      return view;
  }
}

function applyResume(
  stage: StageView,
  { execKey, from, savedAtMs, runId }: Extract<RunEventBody, { type: 'stage-resumed' }>,
  here: string,
): StageView {
  return stage.execKey === execKey ? { ...stage, resumed: { runId: runId ?? here, from, savedAtMs } } : stage;
}

/** Stages that already have events keep their views. */
function applyAdmission(view: RunView, body: Extract<RunEventBody, { type: 'run-admitted' }>, atMs: number): RunView {
  const early = new Map(view.stages.map((stage) => [stage.id, stage]));
  const named = body.stages.map(({ id, dependsOn }) => ({ ...(early.get(id) ?? newStage(id)), dependsOn }));
  const names = new Set(body.stages.map((stage) => stage.id));
  const others = view.stages.filter((stage) => !names.has(stage.id));
  return {
    ...view,
    name: body.name,
    kind: body.kind,
    hostId: body.hostId,
    origin: body.origin ?? null,
    trigger: body.trigger ?? null,
    mocked: body.mocked ?? [],
    agents: body.agents ?? [],
    mockAgents: body.mockAgents ?? [],
    ...(body.budget === undefined ? {} : { budget: { limits: body.budget, ended: NO_USE, open: {} } }),
    outputStage: body.outputStage,
    stages: [...named, ...others],
    startedAtMs: atMs,
    ...(body.startedAtMs === undefined ? {} : { workflowStartedAtMs: body.startedAtMs }),
  };
}

function applyRunEnd(view: RunView, outcome: RunOutcome, atMs: number): RunView {
  if (view.outcome !== null) return view;
  return {
    ...view,
    state: outcome.state,
    outcome,
    finishedAtMs: atMs,
    stages: view.stages.map((stage) => settle(stage, outcome, atMs)),
    vms: view.vms.map(endVm),
  };
}

function projectVm(vm: VmView, body: VmEventBody, atMs: number): VmView {
  switch (body.type) {
    case 'vm-starting':
      return vm;
    case 'vm-ready': {
      const { isolation, vmm, accelerator, kernel, jail, bootMs, start = 'cold', snapshot = null } = body;
      const { chosenBy, limits, pooled, resumedAfter } = body;
      const state = vm.state === 'starting' ? 'ready' : vm.state;
      const facts = { isolation, vmm, accelerator, kernel, jail, bootMs, start, snapshot };
      return {
        ...vm,
        state,
        ...facts,
        ...(chosenBy === undefined ? {} : { chosenBy }),
        ...(limits === undefined ? {} : { limits }),
        ...(pooled === undefined ? {} : { pooled }),
        ...(resumedAfter === undefined ? {} : { resumedAfter }),
      };
    }
    case 'vm-lost':
      return { ...vm, state: 'lost', reason: body.reason };
    case 'vm-stopped':
      return { ...vm, state: vm.state === 'lost' ? 'lost' : 'stopped' };
    case 'network':
      return { ...vm, network: withDoorNotice(vm.network, body, atMs) };
  }
}

/**
 * Resets the stages whose VM was lost, and the stages that are needed again because of it. A restart that a later VM
 * has replaced changes nothing.
 */
function applyRestart(
  view: RunView,
  { scope, reason, stages, attempts }: Extract<RunEventBody, { type: 'scope-restarted' }>,
): RunView {
  const latest = view.vms.filter((vm) => vm.scope === scope).at(-1);
  if (attempts === undefined && (latest?.state === 'starting' || latest?.state === 'ready')) return view;
  return stages.reduce(
    (all, id, index) =>
      withStage(all, id, (stage) =>
        // A stage may have begun in the next VM before the event is written.
        attempts !== undefined && stage.attempt > attempts[index]!
          ? stage
          : stage.attempt === 0
            ? { ...newStage(id), dependsOn: stage.dependsOn }
            : { ...stage, state: 'retrying', failure: null, answer: null, reason },
      ),
    view,
  );
}

function applyVisit(
  view: RunView,
  { stage: loop, visit, stages }: Extract<RunEventBody, { type: 'loop-visited' }>,
): RunView {
  const opened = stages.reduce(
    (all, id) =>
      withStage(all, id, (stage) => ({ ...stage, state: 'waiting', failure: null, answer: null, reason: null })),
    view,
  );
  return withStage(opened, loop, (stage) => ({ ...stage, visit }));
}

/** A VM ends with its run: its host stops a VM that the run did not release. */
function endVm(vm: VmView): VmView {
  return vm.state === 'starting' || vm.state === 'ready' ? { ...vm, state: 'stopped' } : vm;
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
    vmm: null,
    accelerator: null,
    kernel: null,
    jail: null,
    bootMs: null,
    start: null,
    snapshot: null,
    reason: null,
  };
  const changed = view.outcome === null ? change(vm) : endVm(change(vm));
  return { ...view, vms: index === -1 ? [...view.vms, changed] : view.vms.with(index, changed) };
}

function withNotice(view: RunView, notice: NoticeView): RunView {
  return { ...view, notices: [...view.notices, notice] };
}
