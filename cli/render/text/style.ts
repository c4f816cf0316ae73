import { styleText } from 'node:util';
import type { LineStyle } from '../../../app/lines/line-style.ts';

type Format = Parameters<typeof styleText>[0];

/** Puts colour on text, or leaves it as it is. */
export type Style = LineStyle;

/** Remedies name the program as the user types it. */
export interface AdvisingStyle extends Style {
  readonly advise: (text: string) => string;
}

const HUES: readonly Format[] = [
  'cyan',
  'magenta',
  'green',
  'blue',
  'yellow',
  'cyanBright',
  'magentaBright',
  'greenBright',
  'blueBright',
  'yellowBright',
];

/** Colours are for a terminal only; the caller decides, so that renderers stay pure. */
export function createStyle(colours: boolean): Style {
  const paint = (format: Format) => (text: string) =>
    colours && text !== '' ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: paint('bold'),
    dim: paint('dim'),
    red: paint('red'),
    green: paint('green'),
    yellow: paint('yellow'),
    cyan: paint('cyan'),
    hue: (index, text) => paint(HUES[index % HUES.length] ?? 'cyan')(text),
  };
}

export const PLAIN = createStyle(false);
