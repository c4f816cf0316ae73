import { cancelFoundRun } from '../../../app/runs/cancel-run.ts';
import { findRunOrElsewhere } from '../../../app/runs/run-elsewhere.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderCancel } from '../../render/runs/cancel.ts';

/** How long the run's end is waited for before the command leaves it to the worker. */
const WAIT_MS = 20_000;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<run>', 'a run id, a unique prefix of one, or `latest`');
  },
  async execute([text = ''], options, context) {
    const onProgress = (line: string): void => void context.stderr.write(`==> ${line}\n`);
    const found = await findRunOrElsewhere(text, context);
    const { fact, last } = await cancelFoundRun(found, { waitMs: WAIT_MS, onProgress }, context);
    await context.stdout.write(options.json ? `${JSON.stringify(fact)}\n` : renderCancel(fact, last, context.advise));
    return EXIT.success;
  },
});
