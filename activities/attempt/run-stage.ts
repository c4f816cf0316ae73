/**
 * Runs one attempt of one stage. It may die at any line and be run again. It first looks for the durable result of its
 * exec key, and finds its VM and its command by key. It continues the output from the store's cursor, and stops the VM
 * only after all results are durable.
 */
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { isLostVm } from '../../domain/errors/error-code.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { isService } from '../../domain/plan/work.ts';
import { createRedactor, type Redactor } from '../../domain/security/redactor.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { ActivityDeps } from '../deps.ts';
import { type AttemptLife, withHeartbeat } from '../heartbeat.ts';
import { resolveEnvironment, type StageEnvironment } from './host-variables.ts';
import { withBoot } from '../vm/boot-time.ts';
import type { StageRequest } from '../calls/requests.ts';
import { itemVariables } from '../items/items.ts';
import { outputPublished } from './service-output.ts';
import { readResult, writeResult } from './record.ts';
import { createCancelledResult, describeFullDisk, usageOfVm } from './result.ts';
import { followNetwork } from '../vm/network-log.ts';
import { openVm } from '../vm/open-vm.ts';
import { keepPartialOutputs } from './partial-outputs.ts';
import { retainAfter } from '../vm/retain-vm.ts';
import { indexWorkspace, packWorkspace } from '../workspace/stage-workspace.ts';
import { StartFailure } from './start-failure.ts';
import { withTexts } from './texts.ts';
import { type Attempt, attemptName, type AttemptVm } from './stage-attempt.ts';
import { releaseVmOfAttempt, recordLoss, releaseOwned } from '../vm/leave-vm.ts';
import { endLeftCommands } from './end-left-commands.ts';
import { findBrokenStdin, namingRedactedInputs, recordOutputRedaction } from './redacted-data.ts';
import { recordUnredactedNames, warnOfUnsetVariables } from './begin.ts';
import { saveAfterStep } from '../vm/save-step.ts';
import { type AttemptWork, performWork } from './work/attempt-work.ts';
import { kindOf } from './work/kinds.ts';

export function runStage(deps: ActivityDeps, request: StageRequest): Promise<StageResult> {
  return withHeartbeat((life) => driveStage(deps, request, life));
}

/**
 * Does the same as `runStage`, in an activity that has begun.
 * @throws CodedError also if the VM is lost, and the reason for which the attempt detached
 */
export function driveStage(deps: ActivityDeps, request: StageRequest, life: AttemptLife): Promise<StageResult> {
  return deps.attempts.drive(attemptName(request), life, () => attempt(deps, request, life));
}

async function attempt(deps: ActivityDeps, request: StageRequest, life: AttemptLife): Promise<StageResult> {
  const kind = kindOf(request.stage.work);
  try {
    const result = await attemptWith(deps, request, life);
    if (result.outcome !== 'succeeded') await kind.abandon?.({ deps, request, life });
    return result;
  } catch (error) {
    if (isCodedError(error) && isLostVm(error.code)) await kind.abandon?.({ deps, request, life });
    throw error;
  }
}

async function attemptWith(deps: ActivityDeps, written: StageRequest, life: AttemptLife): Promise<StageResult> {
  const { runId, execKey } = written;
  if (written.events.length > 0) await deps.events.append(runId, written.events);
  const earlier = await readResult(deps.events, runId, execKey);
  const stage = earlier === null ? await withTexts(deps, written) : written.stage;
  const request = 'problem' in stage ? written : { ...written, stage };
  const context: Attempt = {
    deps,
    request,
    life,
    vmKey: { runId, scope: request.scope.id, instance: request.instance, generation: request.generation },
    backend: deps.backendFor(request.scope.sandbox),
    ownsVm: request.lease === null,
  };
  if (earlier !== null) return concludeWithoutVm(context, earlier);
  if ('problem' in stage) return withoutTexts(context, stage.problem);
  const broken = findBrokenStdin(request);
  if (broken !== null) return await withoutCommand(context, broken);
  try {
    return await runInVm(context);
  } catch (error) {
    life.detached.throwIfAborted();
    if (life.cancelRequested.aborted && !(isCodedError(error) && error.code === 'fence/stale')) {
      await endLeftCommands(context);
      const cancelled = await withBoot(context, createCancelledResult(context.backend, request));
      const last = isService(stage.work) ? await outputPublished(deps, request) : {};
      return concludeWithoutVm(
        context,
        await writeResult(deps.events, runId, { ...cancelled, ...last }, null, deps.now()),
      );
    }
    if (error instanceof StartFailure) return await withoutCommand(context, error);
    if (isCodedError(error) && error.code === 'stage/disk-full') {
      const place = `stage ${stage.id}: ${sanitizeLine(error.message)}`;
      const message = `${place}: ${describeFullDisk(request.scope.sandbox.diskMib)}`;
      return await withoutCommand(context, { code: error.code, message });
    }
    if (isCodedError(error) && isLostVm(error.code)) await recordLoss(context, error);
    // The error ends the VM as well, and no other VM may replace it.
    if (isCodedError(error) && error.code === 'host/disk-full') deps.vms.drop(context.vmKey);
    throw error;
  }
}

/** Ends an attempt whose texts cannot be made. The command never started, so there is nothing to wait for. */
async function withoutTexts(context: Attempt, problem: string): Promise<StageResult> {
  const { deps, request, backend } = context;
  const { runId, execKey, stage } = request;
  // The texts could be made when the attempt began, so a limit that is reached now is a problem of this host at this
  // moment.
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null)
    throw new Error(`stage ${stage.id} continues, and its texts cannot be made again: ${problem}`);
  const message = sanitizeLine(`stage ${stage.id} cannot start: ${problem}`);
  const result: StageResult = {
    ...createCancelledResult(backend, request),
    outcome: 'failed',
    failure: { code: 'stage/expression', message, stderrTail: '' },
  };
  return concludeWithoutVm(context, await writeResult(deps.events, runId, result, null, deps.now()));
}

/** Fails the stage before its command started. Another VM would have the same problem. */
async function withoutCommand(
  context: Attempt,
  { code, message }: Pick<StageFailure, 'code' | 'message'>,
): Promise<StageResult> {
  const { deps, request, backend } = context;
  const result = await withBoot(context, {
    ...createCancelledResult(backend, request),
    outcome: 'failed',
    failure: { code, message, stderrTail: '' },
  });
  return concludeWithoutVm(context, await writeResult(deps.events, request.runId, result, null, deps.now()));
}

async function runInVm(context: Attempt): Promise<StageResult> {
  const { deps, request } = context;
  const environment = await resolveEnvironment(deps, request);
  const redactor = createRedactor(environment.secrets);
  try {
    return await execute(context, environment, redactor);
  } catch (error) {
    throw withoutSecrets(error, redactor);
  }
}

/**
 * Redacts the error in place: its message may name files and commands, and goes into events, history and the worker's
 * log.
 */
function withoutSecrets(error: unknown, redactor: Redactor): unknown {
  if (!(error instanceof Error)) return error;
  const message = redactor.text(error.message);
  if (message === error.message) return error;
  error.message = message;
  if (error.stack !== undefined) error.stack = redactor.text(error.stack);
  return error;
}

async function execute(context: Attempt, environment: StageEnvironment, redactor: Redactor): Promise<StageResult> {
  const { deps, request, life } = context;
  const { work: planned } = request.stage;
  const work = await kindOf(planned).open(context, environment, planned);
  const packed = await packWorkspace(deps, request, life);
  const indexing = indexWorkspace(deps, request, packed, life);
  // Awaited once there is a VM: a launch that fails first must leave no unhandled rejection.
  indexing.catch(() => undefined);
  life.phase('waiting for a VM');
  const { vm, lease } = await openVm(deps, request, context.backend, life);
  if (vm === null)
    throw new CodedError('host/elsewhere', `the VM ${lease.vmKey} is on host ${lease.host}, where its stages run`);
  const network = followNetwork(context, redactor);
  try {
    const { sandbox } = vm;
    const env = { ...itemVariables(request.item), ...environment.env };
    const inputs = { env, credentials: environment.credentials, workspace: await indexing };
    return await driveIn({ ...context, sandbox, inputs, redactor, network }, environment, work);
  } finally {
    await network.stop();
    vm.leave();
  }
}

/** Runs the work in a ready VM until the result is durable. The VM ends after that if the attempt owns it. */
async function driveIn(
  vm: AttemptVm,
  { unset, named }: StageEnvironment,
  work: AttemptWork<unknown, unknown>,
): Promise<StageResult> {
  const { deps, request, life, sandbox, redactor, network } = vm;
  let renewalFailure: unknown = null;
  if (unset.length > 0) await warnOfUnsetVariables(vm, unset);
  const tooShort = redactor.tooShort.filter((name) => named.has(name));
  if (tooShort.length > 0) await recordUnredactedNames(vm, tooShort);
  life.everyBeat(
    () => sandbox.renew(),
    (error) => (renewalFailure ??= error),
  );
  const ended = await performWork(work, vm);
  const kept = await keepPartialOutputs(vm, ended);
  await saveAfterStep(vm, kept);
  const result = namingRedactedInputs(request, kept);
  await recordOutputRedaction(vm, result.output);
  life.detached.throwIfAborted();
  if (renewalFailure !== null && isCodedError(renewalFailure) && renewalFailure.code === 'fence/stale')
    throw renewalFailure;
  // Call the VM with the fence before the result. An attempt that was overtaken gets `fence/stale` here, even if the
  // store does not know the newer attempt yet.
  await sandbox.renew();
  await network.catchUp();
  const usage = { ...result.usage, ...usageOfVm(await sandbox.usage()) };
  const withUsage = await withBoot(vm, { ...result, usage });
  const left = life.cancelRequested.aborted
    ? { result: withUsage, isRetained: false }
    : await retainAfter(vm, sandbox, withUsage, life.detached);
  const durable = await writeResult(deps.events, request.runId, left.result, sandbox.facts.fence, deps.now());
  await releaseVmOfAttempt(vm, sandbox, ended.execs, left.isRetained);
  return durable;
}

/** Releases the VM of an attempt whose result is already recorded. */
async function concludeWithoutVm(context: Attempt, result: StageResult): Promise<StageResult> {
  if (context.ownsVm) await releaseOwned(context);
  return result;
}
