import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderTokens } from '../../render/access/tokens.ts';
import { parseTokens } from '../../access/answers.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const tokens = parseTokens(await askTokenService(context, { method: 'GET', path: ['tokens'], onProgress }));
    if (options.json === true) {
      await stdout.write(`${JSON.stringify({ tokens })}\n`);
      return EXIT.success;
    }
    const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
    if (tokens.length === 0)
      await stderr.write(context.advise('There are no tokens. Create one: voidbox token create NAME --scope run\n'));
    else await stdout.write(`${renderTokens(tokens, layout).join('\n')}\n`);
    return EXIT.success;
  },
});
