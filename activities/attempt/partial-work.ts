/**
 * Keeps the changes of an agent in its workspace if its attempt failed or was interrupted. No stage reads them; a
 * person may apply them with `voidbox apply RUN --partial`.
 */
import { PARTIAL_OUTPUTS } from '../../domain/plan/workspace.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatStageName } from '../../domain/run/instance.ts';
import { describePartial } from '../../domain/run/partial-work.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Attempt, AttemptVm } from './stage-attempt.ts';
import { collectChanges, WORKSPACE_LIMITS } from '../workspace/stage-workspace.ts';

/** The time limit of git in the guest after a cancel, because a person waits for the end of the run. */
const CANCELLED_LIMIT_MS = 30_000;

/**
 * Returns the result with the kept changes, and with a failure that names them.
 * @param result the result of an agent's attempt, whose VM still lives
 * @throws CodedError if the VM is lost: nothing of the attempt is durable yet
 */
export async function keepPartialWork(vm: AttemptVm, result: StageResult): Promise<StageResult> {
  const { deps, request, sandbox, redactor, life } = vm;
  const { workspace } = vm.inputs;
  const { failure, outcome } = result;
  if (
    workspace === null ||
    workspace.plan.changes === 'none' ||
    failure === null ||
    (outcome !== 'failed' && outcome !== 'cancelled')
  )
    return result;
  // The guest's git has already failed once, and the failure contains the reason.
  if (failure.code === 'workspace/refused') return result;
  const isCancelled = outcome === 'cancelled';
  if (isCancelled && !deps.disk.hasRoomForOutput()) {
    await warnNotKept(vm, 'the disk of the state folder is full');
    return result;
  }
  const timeoutMs = isCancelled ? CANCELLED_LIMIT_MS : WORKSPACE_LIMITS.guestTimeoutMs;
  const taken = await collectChanges({ deps, sandbox, request, workspace, life, timeoutMs });
  if ('problem' in taken) {
    await warnNotKept(vm, redactor.text(taken.problem));
    return result;
  }
  if (!taken.isNew) return result;
  const stage = formatStageName(request.stage.id, request.instance);
  const message = `${failure.message}; ${describePartial(request.runId, stage, taken.files)}`;
  return {
    ...result,
    failure: { ...failure, message },
    partial: {
      ...result.partial,
      [PARTIAL_OUTPUTS.base]: workspace.base,
      [PARTIAL_OUTPUTS.patch]: taken.patch,
      [PARTIAL_OUTPUTS.bundle]: taken.bundle,
    },
  };
}

/** Warns once per attempt. */
async function warnNotKept({ deps, request }: Attempt, why: string): Promise<void> {
  const { runId, execKey, stage, instance } = request;
  const message = sanitizeLine(
    `stage ${formatStageName(stage.id, instance)}: the changes of its agent are not kept: ${why}`,
  );
  const body = { type: 'notice', level: 'warning', message } as const;
  await deps.events.append(runId, [{ id: EVENT_ID.attempt(execKey, 'not-kept'), atMs: deps.now(), body }]);
}
