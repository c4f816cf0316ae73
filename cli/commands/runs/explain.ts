import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ERROR_CODES } from '../../../domain/errors/codes.ts';
import { withoutLinks } from '../../../domain/errors/error-code.ts';
import type { ErrorCodeInfo } from '../../../domain/errors/code-info.ts';
import { describeRetry } from '../../../domain/errors/render-docs.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { suggestNearest, findNearest } from '../../../domain/language/text/suggest.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderPage } from '../../render/text/page.ts';
import { listGuides } from '../../runs/guides.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';

/** More of them are not read. */
const CODES_SHOWN = 12;

/** Codes that a part of a name may mean: those of a group by its name, those with the word anywhere in theirs. */
function remedyFor(typed: string, codes: readonly string[]): string {
  const word = typed.trim().toLowerCase().replace(/\/$/, '');
  const near = word === '' ? [] : codes.filter((code) => code.includes(word));
  // Those of the group come first.
  const sorted = [...near].sort((a, b) => Number(b.startsWith(`${word}/`)) - Number(a.startsWith(`${word}/`)));
  if (sorted.length === 0) return 'docs/reference/errors.md lists all codes.';
  const more = sorted.length > CODES_SHOWN ? `, and ${sorted.length - CODES_SHOWN} more` : '';
  return `Codes with \`${sanitizeLine(word)}\` in them: ${sorted.slice(0, CODES_SHOWN).join(', ')}${more}. docs/reference/errors.md lists all codes.`;
}

export const command = defineCommand<{ readonly json?: boolean }>({
  takesAnyStateFormat: true,
  configure: (command) => {
    command.argument('<topic>', 'an error code, such as stage/timeout, or a guide, such as secrets');
  },
  async execute([code = ''], options, { stdout }) {
    const codes: Readonly<Record<string, ErrorCodeInfo>> = ERROR_CODES;
    const guides = listGuides();
    const path = guides.get(code);
    if (path !== undefined) {
      const text = readFileSync(join(findPackageRoot(), path), 'utf8');
      const page = renderPage(text, dirname(path), stdout.style, stdout.width());
      await stdout.write(options.json === true ? `${JSON.stringify({ topic: code, path, text })}\n` : page);
      return EXIT.success;
    }
    const info = Object.hasOwn(codes, code) ? codes[code]! : null;
    if (info === null)
      throw createUsageError(
        `there is no error code \`${sanitizeLine(code)}\`${suggestNearest(findNearest(code, [...Object.keys(codes), ...guides.keys()]))}`,
        `${remedyFor(code, Object.keys(codes))}\nGuides: ${[...guides.keys()].join(', ')}`,
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
