import { Option } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { DELIVERY_STATES, type DeliveryState } from '../../../domain/delivery/delivery.ts';
import { defineCommand } from '../../command.ts';
import { parseReplays } from '../../deliveries/answers.ts';
import { formatSince } from '../../deliveries/since.ts';
import { EXIT } from '../../exit-code.ts';
import { renderReplays } from '../../render/deliveries/deliveries.ts';
import { parseSinceTime } from '../../runs/log-filter.ts';

interface Options {
  readonly deployment?: string;
  readonly trigger?: string;
  readonly state?: DeliveryState;
  readonly since?: ReturnType<typeof parseSinceTime>;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--deployment', '--state', '--dry-run'],
    examples: [
      ['voidbox delivery replay 01kb6n8z5r3v9w2x4y7p0q1s5t', 'replay one delivery'],
      ['voidbox delivery replay --deployment review --state refused --dry-run', 'show which ones a filter selects'],
    ],
    notes: [
      [
        'A replay',
        'A replay is a new delivery with the same payload, for the enabled version. It is no duplicate, and waits for no group and no rate.',
      ],
    ],
    exitCodes: [
      ['0', 'each delivery was replayed'],
      ['1', 'some deliveries were not replayed; the lines name the reasons'],
      ['2', 'an option has a mistake'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('[id...]', 'ids of deliveries; without them a filter selects')
      .option('--deployment <name>', 'replay deliveries of this deployment')
      .option('--trigger <name>', 'only those of this trigger')
      .addOption(new Option('--state <state>', 'only those in this state').choices([...DELIVERY_STATES]))
      .option('--since <when>', 'only those since an age (10m, 2h) or a time (ISO 8601)', parseSinceTime)
      .option('--dry-run', 'show which deliveries would be replayed');
  },
  async execute(ids, { json, dryRun = false, ...filter }, context) {
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deliveries', 'replay'],
      body: { json: { ...selectDeliveries(ids, filter, context.now().getTime()), isDry: dryRun } },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const replays = parseReplays(answer);
    if (json === true) await stdout.write(`${JSON.stringify({ replays })}\n`);
    else if (replays.length === 0) await stderr.write('No delivery matches these options.\n');
    else await stdout.write(`${renderReplays(replays, dryRun).join('\n')}\n`);
    return replays.every(({ code }) => code === null) ? EXIT.success : EXIT.runFailed;
  },
});

function selectDeliveries(
  ids: readonly string[],
  { deployment, trigger, state, since }: Options,
  nowMs: number,
): Readonly<Record<string, unknown>> {
  const hasFilter = [deployment, trigger, state, since].some((each) => each !== undefined);
  if (ids.length > 0 && hasFilter)
    throw createUsageError('ids and a filter contradict each other', 'Leave one of them out.');
  if (ids.length > 0) return { deliveries: ids };
  if (deployment === undefined)
    throw createUsageError('no delivery is named', 'Give ids, or a filter that begins with --deployment NAME.');
  return { filter: { deployment, trigger, state, since: formatSince(since, nowMs) } };
}
