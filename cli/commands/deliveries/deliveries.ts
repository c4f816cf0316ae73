import { Option } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { DELIVERY_STATES, type DeliveryState } from '../../../domain/delivery/delivery.ts';
import { defineCommand } from '../../command.ts';
import { parseDeliveries } from '../../deliveries/answers.ts';
import { EXIT } from '../../exit-code.ts';
import { renderDeliveries } from '../../render/deliveries/deliveries.ts';
import { parseSinceTime } from '../../runs/log-filter.ts';
import { countOf } from '../../typed-count.ts';
import { formatSince } from '../../deliveries/since.ts';

const DEFAULT_ROWS = 50;
/** The most deliveries of one answer of the API. */
const MOST_ROWS = 200;

interface Options {
  readonly deployment?: string;
  readonly trigger?: string;
  readonly state?: DeliveryState;
  readonly since?: ReturnType<typeof parseSinceTime>;
  readonly limit?: number;
  readonly before?: number;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option('--deployment <name>', 'only deliveries of this deployment')
      .option('--trigger <name>', 'only deliveries of this trigger; `api` for those of `voidbox trigger`')
      .addOption(new Option('--state <state>', 'only deliveries in this state').choices([...DELIVERY_STATES]))
      .option('--since <when>', 'only deliveries since an age (10m, 2h) or a time (ISO 8601)', parseSinceTime)
      .option('-n, --limit <number>', `this many, at most ${MOST_ROWS} (default: ${DEFAULT_ROWS})`, countOf(3))
      .option('--before <number>', 'only deliveries before this one; `next` of --json', countOf(15));
  },
  async execute(_args, options, context) {
    const { limit = DEFAULT_ROWS, before, deployment, trigger, state, since, json } = options;
    if (limit > MOST_ROWS)
      throw createUsageError(`--limit ${limit} is more than ${MOST_ROWS}`, 'Read further deliveries with --before.');
    const { stdout, stderr } = context;
    const nowMs = context.now().getTime();
    const answer = await askTokenService(context, {
      method: 'GET',
      path: ['deliveries'],
      query: { limit, before, deployment, trigger, state, since: formatSince(since, nowMs) },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const page = parseDeliveries(answer);
    if (json === true) {
      await stdout.write(`${JSON.stringify(page)}\n`);
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs };
    if (page.deliveries.length === 0) await stderr.write('There is no such delivery.\n');
    else await stdout.write(`${renderDeliveries(page.deliveries, layout).join('\n')}\n`);
    if (page.next !== null)
      await stderr.write(context.advise(`Earlier ones: ${writeNext(options, page.next, nowMs)}\n`));
    return EXIT.success;
  },
});

/** Returns the command for the next page, with the same filters. */
function writeNext(
  { deployment, trigger, state, since, limit }: Options,
  before: string | number,
  nowMs: number,
): string {
  const filters = Object.entries({ deployment, trigger, state, since: formatSince(since, nowMs), limit });
  const words = filters.flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${value}`]));
  return ['voidbox deliveries', ...words, `--before ${before}`].join(' ');
}
