import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { renderTokens } from '../../render/access/tokens.ts';
import type { TokenRow } from '../../../store/access.ts';
import { createForeignError, parseTokens } from '../../access/answers.ts';

/** The most tokens that the API gives at once. */
const PAGE_TOKENS = 200;
/** A service whose pages never end is not one of Voidbox. */
const MOST_PAGES = 10_000;

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const { stdout, stderr } = context;
    const onProgress = (line: string): void => void stderr.write(`==> ${line}\n`);
    const tokens = await readTokens(context, onProgress);
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

/** Reads all pages. */
async function readTokens(context: CliContext, onProgress: (line: string) => void): Promise<readonly TokenRow[]> {
  const tokens: TokenRow[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const query = { limit: PAGE_TOKENS, cursor };
    const page = parseTokens(await askTokenService(context, { method: 'GET', path: ['tokens'], query, onProgress }));
    tokens.push(...page.tokens);
    if (page.next === null) return tokens;
    if (page.next === cursor) break;
    cursor = page.next;
  }
  throw createForeignError();
}
