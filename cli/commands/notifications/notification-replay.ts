import { askTokenService } from '../../../app/access/token-service.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseNotificationReplays } from '../../notifications/answers.ts';
import { renderNotificationReplays } from '../../render/notifications/notifications.ts';

interface Options {
  readonly dead?: string;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--dead', '--json'],
    examples: [
      ['voidbox notification replay ntf-0123456789abcdef0123456789abcdef', 'send one again'],
      ['voidbox notification replay --dead review', 'send all dead ones of a deployment again'],
    ],
    notes: [
      [
        'A replay',
        'A replay has the same id and content, and eight tries again. It goes to the receiver of the enabled version.',
      ],
    ],
    exitCodes: [
      ['0', 'each notification is sent again'],
      ['1', 'some are not sent again; the lines name the reasons'],
      ['2', 'an option has a mistake'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('[id...]', 'ids of notifications, from `voidbox notifications`')
      .option('--dead <deployment>', 'all dead notifications of this deployment');
  },
  async execute(ids, { dead, json }, context) {
    if (ids.length > 0 === (dead !== undefined))
      throw createUsageError('name notifications, or a deployment with --dead', 'List them: voidbox notifications');
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['notifications', 'replay'],
      body: { json: dead === undefined ? { notifications: ids } : { deadOf: dead } },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const replays = parseNotificationReplays(answer);
    if (json === true) await stdout.write(`${JSON.stringify({ replays })}\n`);
    else if (replays.length === 0) await stderr.write('The deployment has no dead notification.\n');
    else await stdout.write(`${renderNotificationReplays(replays).join('\n')}\n`);
    return replays.every(({ problem }) => problem === null) ? EXIT.success : EXIT.runFailed;
  },
});
