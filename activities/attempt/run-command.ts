/**
 * Runs one command as an activity of any workflow. The command has its own run of one stage in the store. The activity
 * drives this run instead of a workflow. The run's id is derived from the call, so that each attempt finds the records
 * of the previous attempt.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { CancelledFailure, Context } from '@temporalio/activity';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { isLostVm, retryOf } from '../../domain/errors/error-code.ts';
import { execKeyOf } from '../../domain/pipeline/stage-keys.ts';
import { PLAN_LIMITS, type DataRef } from '../../domain/plan/plan.ts';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { commandOf } from '../../domain/plan/work.ts';
import { BEHAVIOUR } from '../../domain/run/behaviour.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { runIdProblem } from '../../domain/run/run-id.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { AdmissionRecord, CommandCaller } from '../admission/admission-record.ts';
import { createAdmissionEvent, HISTORY_LIMIT } from '../admission/admit.ts';
import { type AdmittedRun, createAdmittedRuns, endOf } from '../admission/admitted-run.ts';
import { dataRefOf, type Fields, fieldsOf } from '../calls/values.ts';
import { type CommandPlan, commandPlan } from '../calls/command-plan.ts';
import type { CommandActivities, CommandOutcome, CommandPlacement, OutputText } from '../contract-command.ts';
import type { ActivityDeps } from '../deps.ts';
import { toActivityFailure } from '../failure.ts';
import { finishRun } from '../finish-run.ts';
import { requireVariables } from './host-variables.ts';
import { type AttemptLife, withHeartbeat } from '../heartbeat.ts';
import { refuseWritableMounts, selectAllowedRoots, resolveMounts } from '../admission/mount-policy.ts';
import { resolvePreparedSandboxes } from '../admission/prepared-sandboxes.ts';
import { refuseRetention } from '../vm/retain-vm.ts';
import { refuseServices } from '../admission/service-policy.ts';
import type { ArtifactStore } from '../ports/artifacts.ts';
import type { StageRequest } from '../calls/requests.ts';
import { driveStage } from './run-stage.ts';
import { releaseVm } from '../vm/shared-vm.ts';
import { readResult } from './record.ts';
import { quote } from '../../domain/units/quote.ts';

/** The name that replaces the stage of which a plan would read standard input. */
const STDIN = 'stdin';
/** Long enough for another worker to poll first. */
const ELSEWHERE_DELAY_MS = 100;
const ACTIVITY_ID_CHARACTERS = 128;
/** The length of the workflow's id within the run's id. */
const STEM_CHARACTERS = 64;

export function createCommandActivities(deps: ActivityDeps): CommandActivities {
  const runs = createAdmittedRuns(deps.records);
  return {
    placeCommand: async (request) => {
      try {
        const { activityId, ...command } = request;
        if (typeof activityId !== 'string' || activityId.length > ACTIVITY_ID_CHARACTERS)
          throw new CodedError('call/refused', `placeCommand names no activity: ${quote(activityId)}`);
        const runId = await admitCommand(deps, { ...callerOf(), activityId }, command);
        return { runId, taskQueue: deps.placement.hostQueue } satisfies CommandPlacement;
      } catch (error) {
        throw toActivityFailure(error);
      }
    },
    runCommand: (request) =>
      withHeartbeat(async (life) => {
        const runId = await admitCommand(deps, callerOf(), request);
        const run = await runs.get(runId);
        try {
          return await deps.attempts.drive(`command/${runId}`, life, () => drive(deps, run, life));
        } finally {
          runs.forget(runId);
        }
      }),
    readOutput: async (request) => {
      try {
        return await readOutput(deps, fieldsOf(request, 'a call to read an output'));
      } catch (error) {
        throw toActivityFailure(error);
      }
    },
  };
}

/** Reads the beginning of an output. As with every ref, a caller that knows the hash may read the data. */
async function readOutput(deps: ActivityDeps, { runId, output }: Fields): Promise<OutputText> {
  const ref = dataRefOf(output);
  if (typeof runId !== 'string' || runIdProblem(runId) !== null || ref === null)
    throw new CodedError('call/refused', `a call to read an output names a run and a ref, it names ${quote(runId)}`);
  const admission = (await deps.records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  if (admission?.hostId !== deps.placement.hostId)
    throw new CodedError('host/elsewhere', `run ${runId} was admitted by another host, which has its files and VMs`, {
      nextRetryDelayMs: ELSEWHERE_DELAY_MS,
    });
  return { text: await headOf(deps.artifacts, ref), isCut: ref.sizeBytes > PLAN_LIMITS.inlineBytes };
}

function callerOf(): CommandCaller {
  const { workflowExecution, activityId } = Context.current().info;
  if (workflowExecution === undefined)
    throw new CodedError('call/refused', 'a client, without a workflow, asked for a command: call it from a workflow');
  const { workflowId, runId } = workflowExecution;
  return { workflowId, runId, activityId };
}

/** Derives the run's id. Ids of activities are unique in an execution, and ids of executions are unique everywhere. */
function runIdOf({ workflowId, runId, activityId }: CommandCaller, name: string): string {
  const stem = workflowId.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[.-]+/, '');
  const hash = createHash('sha256')
    .update(JSON.stringify([workflowId, runId, activityId]))
    .digest('hex')
    .slice(0, 16);
  return `${stem === '' ? 'workflow' : stem.slice(0, STEM_CHARACTERS)}.${name}.${hash}`;
}

/** Admits the command unless its run is already admitted. @returns the run's id */
async function admitCommand(deps: ActivityDeps, caller: CommandCaller, request: unknown): Promise<string> {
  const wanted = commandPlan(request);
  const checked = deps.checkPlan(wanted.plan);
  if ('problems' in checked) throw new CodedError('admit/invalid', `runCommand: ${checked.problems.join('\n')}`);
  const runId = runIdOf(caller, wanted.name);
  const earlier = (await deps.records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
  if (earlier === null || earlier === undefined) {
    const starter = await deps.starters.starterOf(runId);
    refuseServices(checked.plan.scopes, deps.servicePolicy, starter);
    refuseRetention(checked.plan.scopes, deps.allowsRetention);
    refuseWritableMounts(starter, checked.plan.scopes);
    const mounts = await resolveMounts(checked.plan, selectAllowedRoots(starter, deps.mountPolicy), null);
    const prepared = await resolvePreparedSandboxes(checked.plan, deps.prepared);
    await requireVariables(deps, runId, checked.plan);
    const plan = toWire(checked.plan);
    const record = {
      plan,
      hostId: deps.placement.hostId,
      hostQueue: deps.placement.hostQueue,
      input: await inputOf(deps.artifacts, wanted),
      behaviour: BEHAVIOUR,
      recordsBoots: false,
      historyLimit: deps.historyLimit ?? HISTORY_LIMIT,
      serverId: deps.serverId,
      executionId: caller.runId,
      mounts,
      ...(Object.keys(prepared).length === 0 ? {} : { prepared }),
      command: caller,
    } satisfies AdmissionRecord;
    // If another call of the same activity was first, its admission is read below.
    await deps.records.create(runId, 'admission', record);
  }
  const admission = (await deps.records.get(runId, 'admission')) as AdmissionRecord;
  await deps.records.create(runId, 'plan', admission.plan);
  if ((await endOf(deps.events, runId)) === null)
    await deps.events.append(runId, [createAdmissionEvent(admission, deps.now())]);
  return runId;
}

async function inputOf(artifacts: ArtifactStore, { stdin }: CommandPlan): Promise<AdmissionRecord['input']> {
  if (stdin === null) return null;
  const bytes = Buffer.from(stdin);
  return { kind: 'ref', ref: await artifacts.put(toStream(bytes), 'application/octet-stream') };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Drives the run to its end, from the point that an earlier attempt reached. */
async function drive(deps: ActivityDeps, run: AdmittedRun, life: AttemptLife): Promise<CommandOutcome> {
  const end = await endOf(deps.events, run.runId);
  if (end !== null) return await outcomeOf(deps, run, await readRecordedResult(deps, run, end));
  let result: StageResult;
  try {
    result = await runUntilResult(deps, run, life);
  } catch (error) {
    life.detached.throwIfAborted();
    // If Temporal retries, the run continues.
    if (!isCodedError(error) || retryOf(error.code) === 'temporal') throw error;
    const failure: StageFailure = { code: error.code, message: error.message, stderrTail: '' };
    await finish(deps, run, { state: 'failed', failedStage: stageOf(run).id, failure, output: null });
    throw error;
  }
  const { outcome, failure, output, stage } = result;
  if (outcome === 'cancelled') {
    await finish(deps, run, { state: 'cancelled', failedStage: null, failure: null, output: null });
    throw new CancelledFailure('cancelled');
  }
  await finish(
    deps,
    run,
    outcome === 'failed'
      ? { state: 'failed', failedStage: stage, failure, output: null }
      : { state: 'succeeded', failedStage: null, failure: null, output },
  );
  return await outcomeOf(deps, run, result);
}

/** Replaces a lost VM by another one, as in any run. */
async function runUntilResult(deps: ActivityDeps, run: AdmittedRun, life: AttemptLife): Promise<StageResult> {
  for (let generation = 0; ; generation += 1) {
    const request = requestOf(run, generation);
    if (await wasLost(deps, request)) {
      await releaseVm(deps, request);
      if (generation < LOST_VM_ATTEMPTS) continue;
      throw new CodedError('vm/lost', `the VM was lost ${generation + 1} times`);
    }
    try {
      return await driveStage(deps, request, life);
    } catch (error) {
      life.detached.throwIfAborted();
      if (!isCodedError(error) || !isLostVm(error.code)) throw error;
      await releaseVm(deps, request);
      if (generation < LOST_VM_ATTEMPTS) continue;
      throw new CodedError(error.code, `the VM was lost ${generation + 1} times; the last time: ${error.message}`, {
        cause: error,
      });
    }
  }
}

async function wasLost(deps: ActivityDeps, { runId, scope, instance, generation }: StageRequest): Promise<boolean> {
  const name = formatVmKey({ runId, scope: scope.id, instance, generation });
  return (await deps.events.find(runId, EVENT_ID.vm(name, 'lost'))) !== null;
}

function stageOf({ plan }: AdmittedRun): AdmittedRun['plan']['stages'][number] {
  return plan.stages[0]!;
}

function requestOf(run: AdmittedRun, generation: number): StageRequest {
  const stage = stageOf(run);
  const work = commandOf(stage.work)!;
  const { input } = run;
  const attempt = generation + 1;
  return {
    runId: run.runId,
    stage: { ...stage, work: input === null ? work : { ...work, stdin: { kind: 'stage-output', stage: STDIN } } },
    scope: run.scopes[0]!,
    generation,
    lease: null,
    instance: [],
    item: null,
    execKey: execKeyOf(stage.id, attempt),
    attempt,
    input: null,
    upstream: input?.kind === 'ref' ? { [STDIN]: { output: input.ref, outputs: {} } } : {},
    hostVariables: run.plan.hostVariables,
    events: [],
  };
}

async function finish(deps: ActivityDeps, { runId }: AdmittedRun, outcome: RunOutcome): Promise<void> {
  await finishRun(deps, { runId, outcome, merge: null, events: [] });
}

/** Returns the result of a run that has ended: this activity's answer was lost, or its workflow was reset. */
async function readRecordedResult(deps: ActivityDeps, run: AdmittedRun, { state }: RunOutcome): Promise<StageResult> {
  for (let attempt = 1; attempt <= LOST_VM_ATTEMPTS + 1; attempt += 1) {
    const result = await readResult(deps.events, run.runId, execKeyOf(stageOf(run).id, attempt));
    if (result !== null && result.outcome !== 'cancelled') return result;
  }
  throw new CodedError('run/ended', `run ${run.runId} has already ended (${state})`);
}

async function outcomeOf(deps: ActivityDeps, { runId }: AdmittedRun, result: StageResult): Promise<CommandOutcome> {
  const { outcome, output, failure, durationMs, command } = result;
  return {
    runId,
    outcome: outcome === 'succeeded' ? 'succeeded' : 'failed',
    exitCode: command?.exitCode ?? null,
    stdout: output === null ? '' : await headOf(deps.artifacts, output),
    isStdoutCut: (output?.sizeBytes ?? 0) > PLAN_LIMITS.inlineBytes,
    output,
    failure,
    durationMs,
  };
}

/** Returns the part that fits into history, without a character that the cut would split. */
async function headOf(artifacts: ArtifactStore, ref: DataRef): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of artifacts.open(ref)) {
    parts.push(part);
    bytes += part.byteLength;
    if (bytes >= PLAN_LIMITS.inlineBytes) break;
  }
  const head = Buffer.concat(parts).subarray(0, PLAN_LIMITS.inlineBytes);
  return new TextDecoder().decode(head, { stream: bytes > head.length });
}
