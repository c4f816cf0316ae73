import { Option } from 'commander';
import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { NOTIFY_STATES, type NotifyState } from '../../../domain/notification/notify.ts';
import { NOTIFICATION_STATES, type NotificationState } from '../../../store/ports/notifications.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseNotifications } from '../../notifications/answers.ts';
import { renderNotifications } from '../../render/notifications/notifications.ts';
import { countOf } from '../../typed-count.ts';

const DEFAULT_ROWS = 50;
/** The most notifications of one answer of the API. */
const MOST_ROWS = 200;

interface Options {
  readonly deployment?: string;
  readonly state?: NotificationState;
  readonly about?: NotifyState;
  readonly limit?: number;
  readonly before?: number;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option('--deployment <name>', 'only notifications of this deployment')
      .addOption(new Option('--state <state>', 'only notifications in this state').choices([...NOTIFICATION_STATES]))
      .addOption(new Option('--about <state>', 'only those about this state of runs').choices([...NOTIFY_STATES]))
      .option('-n, --limit <number>', `this many, at most ${MOST_ROWS} (default: ${DEFAULT_ROWS})`, countOf(3))
      .option('--before <number>', 'only notifications before this one; `next` of --json', countOf(15));
  },
  async execute(_args, { limit = DEFAULT_ROWS, before, deployment, state, about, json }, context) {
    if (limit > MOST_ROWS)
      throw createUsageError(`--limit ${limit} is more than ${MOST_ROWS}`, 'Read further ones with --before.');
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'GET',
      path: ['notifications'],
      query: { limit, before, deployment, state, kind: about },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const page = parseNotifications(answer);
    if (json === true) {
      await stdout.write(`${JSON.stringify(page)}\n`);
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    if (page.notifications.length === 0) await stderr.write('There is no such notification.\n');
    else await stdout.write(`${renderNotifications(page.notifications, layout).join('\n')}\n`);
    if (page.next !== null) {
      const filters = Object.entries({ deployment, state, about, limit });
      const words = filters.flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${value}`]));
      const next = ['voidbox notifications', ...words, `--before ${page.next}`].join(' ');
      await stderr.write(context.advise(`Earlier ones: ${next}\n`));
    }
    return EXIT.success;
  },
});
