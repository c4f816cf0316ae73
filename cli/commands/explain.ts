import { ERROR_CODES } from '../../domain/errors/codes.ts';
import { withoutLinks } from '../../domain/errors/error-code.ts';
import type { ErrorCodeInfo } from '../../domain/errors/code-info.ts';
import { describeRetry } from '../../domain/errors/render-docs.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { didYouMean, nearest } from '../../domain/spec/suggest.ts';
import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<code>', 'an error code, such as stage/timeout');
  },
  async execute([code = ''], options, { stdout }) {
    const codes: Readonly<Record<string, ErrorCodeInfo>> = ERROR_CODES;
    const info = Object.hasOwn(codes, code) ? codes[code]! : null;
    if (info === null)
      throw usageError(
        `there is no error code \`${sanitizeLine(code)}\`${didYouMean(nearest(code, Object.keys(codes)))}`,
        'docs/errors.md lists all codes.',
      );
    const { kind, retry, summary, remedy } = info;
    if (options.json) await stdout.write(`${JSON.stringify({ code, kind, retry, summary, remedy })}\n`);
    else {
      const again = describeRetry(info);
      const lines = [summary, ...(again === null ? [] : [again]), '', `${stdout.style.cyan('help:')} ${remedy}`];
      await stdout.write(`${stdout.style.bold(code)}\n${lines.map(withoutLinks).join('\n')}\n`);
    }
    return EXIT.success;
  },
});
