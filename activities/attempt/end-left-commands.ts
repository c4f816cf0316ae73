/**
 * Ends the commands that a cancelled attempt leaves in a VM that other stages use. A cancel may arrive before the
 * answer to the start of a command. It may also arrive before a new worker has attached to the command of the earlier
 * worker. No follower ends such a command.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { KILL_LIMIT_MS, TERM_GRACE_MS } from './follow-command.ts';
import type { Sandbox } from '../ports/sandbox.ts';
import type { Attempt } from './stage-attempt.ts';

/**
 * Ends the commands as a cancel does, and waits for their end. A VM that ends with its attempt, or that is lost, leaves
 * no commands.
 * @throws CodedError `fence/stale` if a newer attempt drives the VM, `vm/protocol`, `store/io`
 */
export async function endLeftCommands(context: Attempt): Promise<void> {
  const { deps, request, vmKey, backend, life, ownsVm } = context;
  if (ownsVm) return;
  // Without this event, the attempt has started no command: the event precedes the first command.
  if ((await deps.events.find(request.runId, EVENT_ID.attempt(request.execKey, 'started'))) === null) return;
  try {
    const vm = await deps.vms.use(vmKey, () => backend.launch(vmKey, request.scope.sandbox, life.detached));
    try {
      await endCommandsOf(request.execKey, vm.sandbox, life.detached);
    } finally {
      vm.leave();
    }
  } catch (error) {
    if (!isCodedError(error) || !endsVm(error.code)) throw error;
  }
}

async function endCommandsOf(execKey: string, sandbox: Sandbox, detached: AbortSignal): Promise<void> {
  const left = (await sandbox.execs()).filter(
    ({ key, isRunning }) => isRunning && (key === execKey || key.startsWith(`${execKey}/`)),
  );
  if (left.length === 0) return;
  const settled = new AbortController();
  const stop = AbortSignal.any([detached, settled.signal]);
  const ended = left.map(async ({ key }) => {
    const exec = sandbox.attachExec(key);
    await exec.end({ kind: 'cancel' }, TERM_GRACE_MS);
    await exec.wait(stop);
  });
  try {
    await Promise.race([Promise.all(ended), expire(stop)]);
  } finally {
    settled.abort(new Error('the commands have ended'));
    await Promise.allSettled(ended);
  }
}

async function expire(signal: AbortSignal): Promise<never> {
  await sleep(TERM_GRACE_MS + KILL_LIMIT_MS, undefined, { signal });
  throw new CodedError('vm/lost', 'a command did not end after SIGKILL');
}
