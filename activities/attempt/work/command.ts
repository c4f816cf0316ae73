/** A stage whose work is a command. */
import type { CommandWork } from '../../../domain/plan/plan.ts';
import { isService } from '../../../domain/plan/work.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import type { Exec, ExecExit, ExecRequest } from '../../ports/sandbox.ts';
import { beginAttempt } from '../begin.ts';
import { follow } from '../follow-command.ts';
import { stdinOf } from '../inputs.ts';
import { findOutputMismatch } from '../output-check.ts';
import { collectOutputs, type OutcomeFailure } from '../outputs.ts';
import { describeExit } from '../result.ts';
import { createServiceOutput, collectAtCancel, createPublisher } from '../service-output.ts';
import type { AttemptVm } from '../stage-attempt.ts';
import type { AttemptWork, WorkKind } from './attempt-work.ts';
import { leaveWork, writeMountsBack } from './leave.ts';

interface EndedCommand {
  readonly exec: Exec;
  readonly exit: ExecExit;
}

export const commandKind: WorkKind<CommandWork> = {
  open: (_attempt, _environment, work) => Promise.resolve(commandWork(work)),
};

function commandWork(work: CommandWork): AttemptWork<null, EndedCommand> {
  return {
    async prepare(vm) {
      await beginAttempt(vm, null);
      return null;
    },
    async run(vm) {
      const { sandbox, life, redactor } = vm;
      const exec = await sandbox.exec(commandExec(vm, work), life.ended);
      const published = createServiceOutput(vm);
      life.phase(isService(work) ? 'serving' : 'running');
      const exit = await follow(
        vm,
        sandbox,
        exec,
        redactor,
        published === null ? [] : [createPublisher(published, exec)],
      );
      return { exec, exit };
    },
    async collect(vm, ended) {
      vm.life.phase('collecting outputs');
      return { result: await settle(vm, work, ended), execs: [ended.exec] };
    },
  };
}

function commandExec({ deps, request, inputs }: AttemptVm, { program, args, cwd }: CommandWork): ExecRequest {
  const { stage, execKey } = request;
  const { timeoutMs, maxOutputBytes } = stage;
  const stdin = stdinOf(deps.artifacts, request);
  return { key: execKey, program, args, env: inputs.env, cwd, stdin, timeoutMs, maxOutputBytes };
}

/** Returns the result of the ended command. Only a success leaves outputs and writes mounts back. */
async function settle(vm: AttemptVm, work: CommandWork, { exec, exit }: EndedCommand): Promise<StageResult> {
  const { deps, request, life, sandbox, redactor } = vm;
  const base = await describeExit(sandbox, exec, exit, request, redactor, life.detached);
  if (base.outcome === 'cancelled' && isService(work))
    return { ...base, ...(await collectAtCancel(vm, exec, () => writeMountsBack(vm), life.detached)) };
  if (base.outcome !== 'succeeded') return base;
  const collected = await collectOutputs(deps.artifacts, sandbox, exec, request.stage, redactor, life.detached);
  // The message may contain names of files, which the command chose, so it is redacted.
  const createFailedResult = ({ code, message }: OutcomeFailure): StageResult => ({
    ...base,
    outcome: 'failed',
    failure: { code, message: redactor.text(message), stderrTail: '' },
  });
  if (collected.failure !== null) return createFailedResult(collected.failure);
  const mismatch = await findOutputMismatch(deps, request.stage, collected.output);
  if (mismatch !== null) return createFailedResult(mismatch);
  const left = await leaveWork(vm);
  if (left.failure !== null) return createFailedResult(left.failure);
  return { ...base, output: collected.output, outputs: { ...collected.outputs, ...left.outputs } };
}
