/**
 * The start of an attempt in its VM, before its work: records it in the log, and puts the stage's files into the VM.
 */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { putCredentials } from '../agent/command.ts';
import { needsFiles, prepareFiles } from './inputs.ts';
import { hasWritableMounts, prepareMounts } from '../vm/mounts.ts';
import { isPrepared, markPrepared } from './record.ts';
import { unpackWorkspace } from '../workspace/stage-workspace.ts';
import { type Attempt, attemptName, attemptEvent, type AttemptVm } from './stage-attempt.ts';

export interface Preparation {
  readonly prepare: () => Promise<void>;
  /** False if `prepare` unpacks the workspace. */
  readonly unpacksWorkspace: boolean;
}

/**
 * Begins an attempt before its command, which starts once per key: puts the files of the stage into the VM, once for
 * this VM.
 * @param preparation puts further files there; null: there are no further files
 */
export async function beginAttempt(vm: AttemptVm, preparation: Preparation | null): Promise<void> {
  await sayBegun(vm);
  const { deps, request, life, sandbox, vmKey } = vm;
  const { workspace, credentials } = vm.inputs;
  const { execKey } = request;
  if (hasWritableMounts(request)) {
    life.phase('preparing writable mounts');
    await prepareMounts(deps, sandbox, request, vmKey, life.ended);
  }
  if ((preparation !== null || workspace !== null || needsFiles(request)) && !(await isPrepared(sandbox, execKey))) {
    life.phase('preparing files');
    await prepareFiles(deps.artifacts, sandbox, request, life.ended);
    if (workspace !== null && preparation?.unpacksWorkspace !== false)
      await unpackWorkspace(deps, sandbox, request, workspace, life.ended);
    await preparation?.prepare();
    await putCredentials(sandbox, credentials, life.ended);
    markPrepared(sandbox, execKey);
  }
}

/** Records that the attempt begins. If another worker began it, records the takeover with its reason. */
async function sayBegun(context: AttemptVm): Promise<void> {
  const { deps, request, sandbox, redactor } = context;
  const { runId, execKey, stage } = request;
  const budget = answeringOf(stage.work)?.budget;
  const writer = { execKey, fence: sandbox.facts.fence };
  // From this append on, the store rejects writers with lower fences, so the output cursor that is read later is final.
  const isFirst =
    (await deps.events.append(
      runId,
      [
        attemptEvent(context, EVENT_ID.attempt(execKey, 'started'), {
          type: 'stage-started',
          stage: stage.id,
          execKey,
          attempt: request.attempt,
          ...(request.scope.sandbox.egress === undefined ? {} : { vmKey: formatVmKey(context.vmKey) }),
          ...(budget === undefined ? {} : { budget }),
        }),
      ],
      writer,
    )) > 0;
  if (isFirst) return;
  const id = EVENT_ID.reattached(execKey, formatVmKey(context.vmKey), sandbox.facts.fence);
  const reason = redactor.text(
    deps.attempts.earlierEnd(attemptName(request)) ?? 'the previous worker ended, or lost contact with this host',
  );
  await deps.events.append(
    runId,
    [
      attemptEvent(context, id, {
        type: 'stage-reattached',
        stage: stage.id,
        execKey,
        fence: sandbox.facts.fence,
        reason,
      }),
    ],
    writer,
  );
}

/** Warns once per variable and run, whatever the number of stages that read it. */
export async function warnOfUnsetVariables(context: Attempt, names: readonly string[]): Promise<void> {
  const events = names.map((name) =>
    attemptEvent(context, EVENT_ID.variableUnset(name), {
      type: 'notice',
      level: 'warning',
      message: `the variable ${name} is not set on the host: stage ${context.request.stage.id} and others that read it get an empty value; \`secrets: [${name}]\` at a stage demands it`,
    }),
  );
  await context.deps.events.append(context.request.runId, events);
}

export async function recordUnredactedNames(context: Attempt, names: readonly string[]): Promise<void> {
  const { execKey, stage, runId } = context.request;
  const message = `stage ${stage.id}: values of ${names.join(', ')} are too short to distinguish from ordinary text, so they are not redacted`;
  await context.deps.events.append(runId, [
    attemptEvent(context, EVENT_ID.attempt(execKey, 'not-redacted'), { type: 'notice', level: 'info', message }),
  ]);
}
