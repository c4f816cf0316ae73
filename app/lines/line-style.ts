/** The colours of lines: a terminal has them, a pipe and an answer of the API do not. */
export interface LineStyle {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
  /**
   * Colours text by number, always the same colour for the same number, to tell names apart. Red is left out: it marks
   * failures.
   */
  hue(index: number, text: string): string;
}

const keep = (text: string): string => text;

export const UNSTYLED: LineStyle = {
  bold: keep,
  dim: keep,
  red: keep,
  green: keep,
  yellow: keep,
  cyan: keep,
  hue: (_index, text) => text,
};
