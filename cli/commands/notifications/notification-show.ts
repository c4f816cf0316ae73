import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { parseNotification } from '../../notifications/answers.ts';
import { renderNotification } from '../../render/notifications/notifications.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<id>', 'the id of the notification, from `voidbox notifications`');
  },
  async execute([id = ''], options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const path = ['notifications', id];
    const shown = parseNotification(await askTokenService(context, { method: 'GET', path, onProgress }));
    const layout = { style: stdout.style, nowMs: context.now().getTime() };
    const text = options.json === true ? JSON.stringify(shown) : renderNotification(shown, layout).join('\n');
    await stdout.write(`${text}\n`);
    return EXIT.success;
  },
});
