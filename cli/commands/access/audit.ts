import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderAudit } from '../../render/access/audit.ts';
import { countOf } from '../../typed-count.ts';
import { parseAudit } from '../../access/answers.ts';

const DEFAULT_ROWS = 50;
/** The most rows of one answer of the API. */
const MOST_ROWS = 1_000;

interface Options {
  readonly limit?: number;
  readonly before?: number;
  readonly token?: string;
  readonly run?: string;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option('-n, --limit <number>', `this many rows, at most ${MOST_ROWS} (default: ${DEFAULT_ROWS})`, countOf(4))
      .option('--before <id>', 'only rows before this one; `next` of --json', countOf(15))
      .option('--token <name>', 'only rows of this token')
      .option('--run <id>', 'only rows of this run')
      .addHelpText(
        'after',
        '\nEach change over TCP has a row: starts, cancels, uploads and tokens. Reads have no rows.',
      );
  },
  async execute(_args, options, context) {
    const { limit = DEFAULT_ROWS, before, token, run } = options;
    if (limit > MOST_ROWS)
      throw createUsageError(`--limit ${limit} is more than ${MOST_ROWS}`, 'Read further rows with --before.');
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'GET',
      path: ['audit'],
      query: { limit, before, token, run },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const page = parseAudit(answer);
    if (options.json === true) {
      await stdout.write(`${JSON.stringify(page)}\n`);
      return EXIT.success;
    }
    if (page.rows.length === 0) await stderr.write('No change over TCP is recorded.\n');
    else await stdout.write(`${renderAudit(page.rows, { style: stdout.style, width: stdout.width() }).join('\n')}\n`);
    if (page.next !== null) await stderr.write(context.advise(`Earlier rows: voidbox audit --before ${page.next}\n`));
    return EXIT.success;
  },
});
