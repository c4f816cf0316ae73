/** What comes before the work of a stage in its VM: the log says that it begins, and the files that it finds are put there. */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import { vmKeyText } from '../../domain/run/vm-key.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { Preparation } from '../agent/context.ts';
import { putCredentials } from '../agent/command.ts';
import type { Sandbox } from '../ports/sandbox.ts';
import { needsFiles, prepareFiles } from './inputs.ts';
import { hasWritableMounts, prepareMounts } from '../vm/mounts.ts';
import { isPrepared, markPrepared } from './record.ts';
import { unpackWorkspace } from '../workspace/stage-workspace.ts';
import { type Attempt, attemptName, attemptEvent, type Worked } from './stage-attempt.ts';

/**
 * Before the command, which is started once for its key: the files of the stage, once for this VM.
 * @param preparation  puts more of them there; null: there are none
 */
export async function beginAttempt(
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
        attemptEvent(context, EVENT_ID.attempt(execKey, 'started'), {
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

/** Once for each in a run, however many stages read it. */
export async function sayUnset(context: Attempt, names: readonly string[]): Promise<void> {
  const events = names.map((name) =>
    attemptEvent(context, EVENT_ID.variableUnset(name), {
      type: 'notice',
      level: 'warning',
      message: `the variable ${name} is not set on the host: stage ${context.request.stage.id} and others that read it get an empty value; \`secrets: [${name}]\` at a stage demands it`,
    }),
  );
  await context.deps.events.append(context.request.runId, events);
}

export async function sayNotRedacted(context: Attempt, names: readonly string[]): Promise<void> {
  const { execKey, stage, runId } = context.request;
  const message = `stage ${stage.id}: values of ${names.join(', ')} are too short to be told from ordinary text and are not redacted`;
  await context.deps.events.append(runId, [
    attemptEvent(context, EVENT_ID.attempt(execKey, 'not-redacted'), { type: 'notice', level: 'info', message }),
  ]);
}
