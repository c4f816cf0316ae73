/**
 * Named outputs of an attempt that Voidbox ended. They are kept for people, under a name that no part of Voidbox reads
 * as an output.
 */
import { limitSignal } from '../../files/limited-signal.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { isService } from '../../domain/plan/work.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { type Attempt, attemptEvent, type AttemptVm } from './stage-attempt.ts';
import { isInterrupted } from './result.ts';
import type { WorkEnd } from './work/attempt-work.ts';

/** The time limit for all partial outputs together, because a cancel must not wait longer. */
export const PARTIAL_LIMIT_MS = 10_000;

/**
 * Returns the result, with `partial` if Voidbox ended one of the commands. An output that cannot be kept causes a
 * notice.
 */
export async function keepPartialOutputs(vm: AttemptVm, { result, execs }: WorkEnd): Promise<StageResult> {
  const { request, life, sandbox, redactor } = vm;
  const { stage } = request;
  // A service has named outputs only if it ends on its own.
  if (result.outcome === 'succeeded' || stage.outputs.length === 0 || isService(stage.work)) return result;
  const exits = await Promise.all(execs.map((exec) => exec.wait(life.detached)));
  if (!exits.some(isInterrupted)) return result;
  const signal = limitSignal(life.detached, PARTIAL_LIMIT_MS);
  const partial: Record<string, DataRef> = createMapping();
  for (const { name, guestPath } of stage.outputs)
    try {
      const tar = await sandbox.getTar(guestPath, signal);
      if (tar !== null) partial[name] = await vm.deps.artifacts.put(tar, 'application/x-tar');
    } catch (error) {
      life.detached.throwIfAborted();
      const why = signal.aborted
        ? `it takes longer than ${PARTIAL_LIMIT_MS / 1000} s to copy`
        : error instanceof Error
          ? error.message
          : String(error);
      await warnNotKept(vm, redactor.text(`the partial output ${name} of stage ${stage.id} is not kept: ${why}`));
      if (signal.aborted) break;
    }
  return Object.keys(partial).length === 0 ? result : { ...result, partial: { ...result.partial, ...partial } };
}

/** Warns once per attempt: the first reason is enough. */
async function warnNotKept(context: Attempt, text: string): Promise<void> {
  const { deps, request } = context;
  const body = { type: 'notice', level: 'warning', message: sanitizeLine(text) } as const;
  await deps.events.append(request.runId, [attemptEvent(context, EVENT_ID.attempt(request.execKey, 'not-kept'), body)]);
}
