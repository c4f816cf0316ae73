/** Results of attempts for tests. */
import { parseExecKey } from '../../../domain/run/attempt.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';

/**
 * Makes the result of a command in a VM of the mock backend: it has failed if `change` has a failure, and has succeeded otherwise.
 * @param execKey  names the stage, the instance and the attempt
 */
export function stageResult(execKey: string, change: Partial<Omit<StageResult, 'execKey'>> = {}): StageResult {
  const { stage, instance, attempt } = parseExecKey(execKey)!;
  const hasFailed = (change.failure ?? null) !== null;
  return {
    stage,
    instance,
    attempt,
    execKey,
    outcome: hasFailed ? 'failed' : 'succeeded',
    failure: null,
    durationMs: 1,
    output: null,
    outputs: {},
    vm: { backend: 'mock', vmm: 'mock', isolation: 'none', accelerator: 'mock' },
    usage: {},
    command: { exitCode: hasFailed ? 3 : 0, stdoutBytes: 0, stderrBytes: 0 },
    ...change,
  };
}
