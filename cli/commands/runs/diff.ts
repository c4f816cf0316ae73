import { isCodedError } from '../../../domain/errors/coded-error.ts';
import type { DataRef } from '../../../domain/plan/plan.ts';
import { defineCommand } from '../../command.ts';
import { compareRuns } from '../../../app/runs/diff-runs.ts';
import { EXIT } from '../../exit-code.ts';
import { resultText } from '../../../app/runs/result-text.ts';
import { readRecordedRun } from '../../../app/runs/recorded-run.ts';
import { renderRunDiff } from '../../render/runs/run-diff.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';

/** Larger outputs are compared only by their hashes. */
const TEXT_BYTES = 64 * 1024;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('<other>', 'another run')
      .addHelpText('after', '\nExit codes: 0 if they are the same, 1 if they differ.');
  },
  async execute([text = '', otherText = ''], options, context) {
    const one = await readRecordedRun(await findRunHere('diff', text, context), context);
    const other = await readRecordedRun(await findRunHere('diff', otherText, context), context);
    const { artifacts } = await context.stores();
    const textOf = async (ref: DataRef): Promise<string | null> => {
      if (ref.sizeBytes > TEXT_BYTES) return null;
      try {
        return await resultText(ref, artifacts);
      } catch (error) {
        // An output that is gone still has its hash.
        if (isCodedError(error) && error.code === 'store/damaged') return null;
        throw error;
      }
    };
    const diff = await compareRuns(one, other, textOf);
    const lines = options.json === true ? [JSON.stringify(diff)] : renderRunDiff(diff, context.stdout.style);
    await context.stdout.write(`${lines.join('\n')}\n`);
    return diff.isSame ? EXIT.success : EXIT.runFailed;
  },
});
