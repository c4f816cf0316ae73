/**
 * One attempt of one stage. It may die at any line and be run again: it begins by looking for the durable
 * result of its exec key, finds its VM and its command by key, goes on writing output from where the store
 * stands, and stops the VM only after everything that counts is durable.
 */
import { CodedError, isCodedError } from '../domain/errors/coded-error.ts';
import { endsVm, isLostVm } from '../domain/errors/error-code.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody } from '../domain/run/event.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { answeringOf, commandOf, isService } from '../domain/plan/work.ts';
import { vmKeyText } from '../domain/run/vm-key.ts';
import { createRedactor, type Redactor } from '../domain/security/redactor.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import type { ActivityDeps } from './deps.ts';
import { withHeartbeat, type AttemptLife } from './heartbeat.ts';
import { resolveEnvironment, type StageEnvironment } from './host-variables.ts';
import { outputMismatch } from './output-check.ts';
import { createProgress } from './agent-progress.ts';
import type { AgentContext, Preparation } from './agent-context.ts';
import { runAgent } from './run-agent.ts';
import { demandLogin, sayLoginEnds } from './agent-login.ts';
import { type FollowedLedger, openLedger, RunBudgetFailure, type RunLedger } from './run-budget.ts';
import { runSkill, sessionOfStage } from './run-skill.ts';
import { agentOfStage, putCredentials } from './agent-command.ts';
import { follow } from './follow-command.ts';
import type { Exec, ExecExit, ExecRequest, Sandbox, SandboxBackend, VmKey } from './ports/sandbox.ts';
import type { StageRequest } from './requests.ts';
import { itemVariables } from './items.ts';
import { needsFiles, prepareFiles, stdinOf } from './stage-inputs.ts';
import { createServiceOutput, leftAtCancel, outputPublished, publishing } from './service-output.ts';
import { copyMountsBack, hasWritableMounts, prepareMounts } from './stage-mounts.ts';
import { collectOutputs, type OutcomeFailure } from './stage-outputs.ts';
import { isPrepared, markPrepared, readResult, writeResult } from './stage-record.ts';
import { cancelledResult, describeExit, usageOfVm } from './stage-result.ts';
import { followNetwork, recordNetwork } from './network-log.ts';
import { openVm } from './open-vm.ts';
import { isRetained, retainAfter } from './retain-vm.ts';
import {
  type StageWorkspace,
  takeWorkspace,
  unpackWorkspace,
  WorkspaceFailure,
  workspaceOf,
} from './stage-workspace.ts';
import { withTexts } from './texts.ts';

export function runStage(deps: ActivityDeps, request: StageRequest): Promise<StageResult> {
  return withHeartbeat((life) => driveStage(deps, request, life));
}

/** As `runStage`, in an activity that has begun. @throws CodedError also where the VM is lost, and what made the attempt let go */
export function driveStage(deps: ActivityDeps, request: StageRequest, life: AttemptLife): Promise<StageResult> {
  return deps.attempts.drive(attemptName(request), life, () => attempt(deps, request, life));
}

function attemptName({ runId, execKey }: StageRequest): string {
  return `${runId}/${execKey}`;
}

interface Attempt {
  readonly deps: ActivityDeps;
  readonly request: StageRequest;
  readonly life: AttemptLife;
  readonly vmKey: VmKey;
  readonly backend: SandboxBackend;
  /** A scope of one stage: the VM lives and ends with this stage. */
  readonly ownsVm: boolean;
}

async function attempt(deps: ActivityDeps, request: StageRequest, life: AttemptLife): Promise<StageResult> {
  try {
    const result = await attemptWith(deps, request, life);
    if (result.outcome !== 'succeeded') await endSession(deps, request, life);
    return result;
  } catch (error) {
    // Another attempt, in another VM, has a session of its own.
    if (isCodedError(error) && isLostVm(error.code)) await endSession(deps, request, life);
    throw error;
  }
}

/** Of a step machine that did not come to its end: nobody answers it any more. */
async function endSession(deps: ActivityDeps, request: StageRequest, life: AttemptLife): Promise<void> {
  if (request.stage.work.kind !== 'skill') return;
  await deps.stageSessions?.cancel(sessionOfStage(request), life.detached);
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
  try {
    return await inVm(context);
  } catch (error) {
    life.detached.throwIfAborted();
    if (life.cancelRequested.aborted && !(isCodedError(error) && error.code === 'fence/stale')) {
      const cancelled = cancelledResult(context.backend, request);
      const last = isService(stage.work) ? await outputPublished(deps, request) : {};
      return concludeWithoutVm(
        context,
        await writeResult(deps.events, runId, { ...cancelled, ...last }, null, deps.now()),
      );
    }
    if (error instanceof WorkspaceFailure || error instanceof RunBudgetFailure)
      return await withoutCommand(context, error);
    if (isCodedError(error) && isLostVm(error.code)) await recordLoss(context, error);
    // Its VM is gone as well, and no other one is asked for.
    if (isCodedError(error) && error.code === 'host/disk-full') deps.vms.drop(context.vmKey);
    throw error;
  }
}

/** The command never started, so nothing of it is to be waited for. */
async function withoutTexts(context: Attempt, problem: string): Promise<StageResult> {
  const { deps, request, backend } = context;
  const { runId, execKey, stage } = request;
  // It could be made when the attempt began: a limit that is reached now says something of this host at this moment.
  if ((await deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null)
    throw new Error(`stage ${stage.id} goes on, and its texts cannot be made again: ${problem}`);
  const message = sanitizeLine(`stage ${stage.id} cannot start: ${problem}`);
  const result: StageResult = {
    ...cancelledResult(backend, request),
    outcome: 'failed',
    failure: { code: 'stage/expression', message, stderrTail: '' },
  };
  return concludeWithoutVm(context, await writeResult(deps.events, runId, result, null, deps.now()));
}

/** Another VM would not find it otherwise, and the stage's own command never started. */
async function withoutCommand(
  context: Attempt,
  { code, message }: WorkspaceFailure | RunBudgetFailure,
): Promise<StageResult> {
  const { deps, request, backend } = context;
  const result: StageResult = {
    ...cancelledResult(backend, request),
    outcome: 'failed',
    failure: { code, message, stderrTail: '' },
  };
  return concludeWithoutVm(context, await writeResult(deps.events, request.runId, result, null, deps.now()));
}

async function inVm(context: Attempt): Promise<StageResult> {
  const { deps, request } = context;
  const environment = await resolveEnvironment(deps, request);
  const redactor = createRedactor(environment.secrets);
  try {
    return await carryOut(context, environment, redactor);
  } catch (error) {
    throw withoutSecrets(error, redactor);
  }
}

/** The same error: what it says of files and commands goes into events, history and the worker's log. */
function withoutSecrets(error: unknown, redactor: Redactor): unknown {
  if (!(error instanceof Error)) return error;
  const message = redactor.text(error.message);
  if (message === error.message) return error;
  error.message = message;
  if (error.stack !== undefined) error.stack = redactor.text(error.stack);
  return error;
}

async function carryOut(
  context: Attempt,
  { env: written, credentials, named, unset, login }: StageEnvironment,
  redactor: Redactor,
): Promise<StageResult> {
  const { deps, request, life } = context;
  const env = { ...itemVariables(request.item), ...written };
  const ledger = await openLedger(deps, request);
  await demandLogin(deps, request, login);
  const workspace = await workspaceOf(deps, request, life);
  life.phase('waiting for a VM');
  const { vm, lease } = await openVm(deps, request, context.backend, life);
  if (vm === null)
    throw new CodedError('host/elsewhere', `the VM ${lease.vmKey} is on host ${lease.host}, where its stages run`);
  const network = followNetwork(context, redactor);
  let followed: FollowedLedger | null = null;
  try {
    const { sandbox } = vm;
    let renewalFailure: unknown = null;
    if (unset.length > 0) await sayUnset(context, unset);
    const tooShort = redactor.tooShort.filter((name) => named.has(name));
    if (tooShort.length > 0) await sayNotRedacted(context, tooShort);
    life.everyBeat(
      () => sandbox.renew(),
      (error) => (renewalFailure ??= error),
    );
    // Others went on while it waited for its VM, and so did the clock.
    await ledger?.refuseUsedUp();
    await demandLogin(deps, request, login);
    await sayLoginEnds(deps, request, login);
    followed = ledger?.follow(life.detached) ?? null;
    const { result, execs } = await work({ ...context, workspace, credentials, ledger }, sandbox, env, redactor);
    life.detached.throwIfAborted();
    if (renewalFailure !== null && isCodedError(renewalFailure) && renewalFailure.code === 'fence/stale')
      throw renewalFailure;
    // A fenced call before the result: an attempt that was overtaken by one the store has not heard of yet learns it here.
    await sandbox.renew();
    await network.catchUp();
    const withUsage = { ...result, usage: { ...result.usage, ...usageOfVm(await sandbox.usage()) } };
    const left = life.cancelRequested.aborted
      ? { result: withUsage, isRetained: false }
      : await retainAfter(context, sandbox, withUsage, life.detached);
    const durable = await writeResult(deps.events, request.runId, left.result, sandbox.facts.fence, deps.now());
    await letGoOfVm(context, sandbox, execs, left.isRetained);
    return durable;
  } finally {
    await followed?.stop();
    await network.stop();
    vm.leave();
  }
}

interface Worked extends Attempt {
  readonly ledger: RunLedger | null;
  readonly workspace: StageWorkspace | null;
  readonly credentials: StageEnvironment['credentials'];
}

/** What is done in the VM, and the commands that did it. */
async function work(
  context: Worked,
  sandbox: Sandbox,
  env: Readonly<Record<string, string>>,
  redactor: Redactor,
): Promise<{ readonly result: StageResult; readonly execs: readonly Exec[] }> {
  const { deps, request, life } = context;
  const agent = agentOfStage(request);
  if (agent !== null) {
    const { work: done } = request.stage;
    const driven: AgentContext = {
      ...context,
      agent,
      sandbox,
      env,
      redactor,
      begin: (preparation) => begin(context, sandbox, redactor, preparation),
      published: createServiceOutput({ deps, request, sandbox, redactor }),
      progress:
        done.kind === 'skill' || isService(done)
          ? null
          : createProgress({ deps, request, sandbox, redactor, sessionFolder: agent.provider.sessionFolder }),
      takeWorkspace: () => takeWorkspace(deps, sandbox, request, context.workspace, life),
      copyBack: () => copyMountsBack(deps, sandbox, request, context.vmKey, life.detached),
    };
    if (done.kind === 'skill') return await runSkill({ ...driven, skill: done });
    if (done.kind === 'agent') return await runAgent(driven, done.prompt);
  }
  await begin(context, sandbox, redactor, null);
  const exec = await sandbox.exec(commandExec(deps, request, env), life.ended);
  const published = createServiceOutput({ deps, request, sandbox, redactor });
  life.phase(isService(request.stage.work) ? 'serving' : 'running');
  const exit = await follow(context, sandbox, exec, redactor, published === null ? [] : [publishing(published, exec)]);
  life.phase('collecting outputs');
  return { result: await settle(context, sandbox, exec, exit, redactor), execs: [exec] };
}

function commandExec(
  { artifacts }: ActivityDeps,
  request: StageRequest,
  env: Readonly<Record<string, string>>,
): ExecRequest {
  const { stage, execKey } = request;
  const command = commandOf(stage.work);
  if (command === null) throw new Error(`stage ${stage.id} has no command`);
  const { program, args, cwd } = command;
  const { timeoutMs, maxOutputBytes } = stage;
  return { key: execKey, program, args, env, cwd, stdin: stdinOf(artifacts, request), timeoutMs, maxOutputBytes };
}

/** The result stands by now: a VM that is gone in this moment changes nothing about it, and must not have the stage run again. */
async function letGoOfVm(
  context: Attempt,
  sandbox: Sandbox,
  execs: readonly Exec[],
  isRetained: boolean,
): Promise<void> {
  const { deps, request, vmKey } = context;
  try {
    for (const exec of execs) await exec.acknowledge();
    if (context.ownsVm && !isRetained) await sandbox.stop();
  } catch (error) {
    if (!(isCodedError(error) && endsVm(error.code))) throw error;
  }
  if (!context.ownsVm) return;
  // It keeps its lease: it takes room as long as it lives.
  if (isRetained) {
    await recordNetwork(context);
    return deps.vms.drop(vmKey);
  }
  // Connections that were open have ended with the VM.
  await recordNetwork(context);
  deps.vms.drop(vmKey);
  await deps.leases.release(vmKey);
  await deps.events.append(request.runId, [vmStopped(context)]);
}

/**
 * Before the command, which is started once for its key: the files of the stage, once for this VM.
 * @param preparation  puts more of them there; null: there are none
 */
async function begin(
  context: Worked,
  sandbox: Sandbox,
  redactor: Redactor,
  preparation: Preparation | null,
): Promise<void> {
  const { deps, request, life, workspace } = context;
  const { runId, execKey, stage } = request;
  const budget = answeringOf(stage.work)?.budget;
  const writer = { execKey, fence: sandbox.facts.fence };
  // The store refuses writers of lower fences from this append on, so the output cursor read later is final.
  const isFirst =
    (await deps.events.append(
      runId,
      [
        event(context, EVENT_ID.attempt(execKey, 'started'), {
          type: 'stage-started',
          stage: stage.id,
          execKey,
          attempt: request.attempt,
          ...(request.scope.sandbox.egress === undefined ? {} : { vmKey: vmKeyText(context.vmKey) }),
          ...(budget === undefined ? {} : { budget }),
        }),
      ],
      writer,
    )) > 0;
  if (!isFirst) {
    const id = EVENT_ID.reattached(execKey, vmKeyText(context.vmKey), sandbox.facts.fence);
    const reason = redactor.text(
      deps.attempts.earlierEnd(attemptName(request)) ?? 'the previous worker ended, or lost contact with this host',
    );
    await deps.events.append(
      runId,
      [event(context, id, { type: 'stage-reattached', stage: stage.id, execKey, fence: sandbox.facts.fence, reason })],
      writer,
    );
  }
  if (hasWritableMounts(request)) {
    life.phase('preparing writable mounts');
    await prepareMounts(deps, sandbox, request, context.vmKey, life.ended);
  }
  if ((preparation !== null || workspace !== null || needsFiles(request)) && !(await isPrepared(sandbox, execKey))) {
    life.phase('preparing files');
    await prepareFiles(deps.artifacts, sandbox, request, life.ended);
    if (workspace !== null && preparation?.unpacksWorkspace !== false)
      await unpackWorkspace(deps, sandbox, request, workspace, life.ended);
    await preparation?.prepare();
    await putCredentials(sandbox, context.credentials, life.ended);
    markPrepared(sandbox, execKey);
  }
}

/** What the ended command comes to. Only a success leaves outputs and writes mounts back. */
async function settle(
  context: Worked,
  sandbox: Sandbox,
  exec: Exec,
  exit: ExecExit,
  redactor: Redactor,
): Promise<StageResult> {
  const { deps, request, life } = context;
  const base = await describeExit(
    context.backend,
    sandbox,
    exec,
    exit,
    request,
    redactor,
    life.cancelRequested.aborted,
    life.detached,
  );
  const copyBack = (): Promise<OutcomeFailure | null> =>
    copyMountsBack(deps, sandbox, request, context.vmKey, life.detached);
  if (base.outcome === 'cancelled' && isService(request.stage.work))
    return {
      ...base,
      ...(await leftAtCancel({ deps, request, sandbox, redactor }, exec, copyBack, life.detached)),
    };
  if (base.outcome !== 'succeeded') return base;
  const collected = await collectOutputs(deps.artifacts, sandbox, exec, request.stage, redactor, life.detached);
  // Names of files are the command's own words.
  const failed = ({ code, message }: OutcomeFailure): StageResult => ({
    ...base,
    outcome: 'failed',
    failure: { code, message: redactor.text(message), stderrTail: '' },
  });
  if (collected.failure !== null) return failed(collected.failure);
  const mismatch = await outputMismatch(deps, request.stage, collected.output);
  if (mismatch !== null) return failed(mismatch);
  const left = await takeWorkspace(deps, sandbox, request, context.workspace, life);
  if (left.failure !== null) return failed(left.failure);
  const refused = await copyBack();
  if (refused !== null) return failed(refused);
  return { ...base, output: collected.output, outputs: { ...collected.outputs, ...left.outputs } };
}

/** The result stands already: only what follows it is done again. */
async function concludeWithoutVm(context: Attempt, result: StageResult): Promise<StageResult> {
  if (context.ownsVm) await releaseOwned(context);
  return result;
}

async function releaseOwned(context: Attempt): Promise<void> {
  if (context.request.scope.sandbox.keepOnFailureMs !== undefined && (await isRetained(context.deps, context.vmKey)))
    return;
  await context.backend.release(context.vmKey);
  await recordNetwork(context);
  context.deps.vms.drop(context.vmKey);
  await context.deps.leases.release(context.vmKey);
  await context.deps.events.append(context.request.runId, [vmStopped(context)]);
}

/** Once for each in a run, however many stages read it. */
async function sayUnset(context: Attempt, names: readonly string[]): Promise<void> {
  const events = names.map((name) =>
    event(context, EVENT_ID.variableUnset(name), {
      type: 'notice',
      level: 'warning',
      message: `the variable ${name} is not set on the host: stage ${context.request.stage.id} and others that read it get an empty value; \`secrets: [${name}]\` at a stage demands it`,
    }),
  );
  await context.deps.events.append(context.request.runId, events);
}

async function sayNotRedacted(context: Attempt, names: readonly string[]): Promise<void> {
  const { execKey, stage, runId } = context.request;
  const message = `stage ${stage.id}: values of ${names.join(', ')} are too short to be told from ordinary text and are not redacted`;
  await context.deps.events.append(runId, [
    event(context, EVENT_ID.attempt(execKey, 'not-redacted'), { type: 'notice', level: 'info', message }),
  ]);
}

/** The run machine has the VM released before it asks for the next generation. */
async function recordLoss(context: Attempt, error: CodedError): Promise<void> {
  const { deps, request, vmKey } = context;
  const name = vmKeyText(vmKey);
  await recordNetwork(context);
  deps.vms.drop(vmKey);
  await deps.events.append(request.runId, [
    {
      id: EVENT_ID.vm(name, 'lost'),
      atMs: deps.now(),
      body: {
        type: 'vm-lost',
        vmKey: name,
        scope: vmKey.scope,
        generation: vmKey.generation,
        reason: `${error.code}: ${error.message}`,
      },
    },
  ]);
}

function event(context: Attempt, id: string, body: RunEventBody): NewRunEvent {
  return { id, atMs: context.deps.now(), body };
}

function vmStopped({ vmKey, deps }: Attempt): NewRunEvent {
  return {
    id: EVENT_ID.vm(vmKeyText(vmKey), 'stopped'),
    atMs: deps.now(),
    body: { type: 'vm-stopped', vmKey: vmKeyText(vmKey), scope: vmKey.scope, generation: vmKey.generation },
  };
}
