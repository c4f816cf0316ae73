/** An image that cannot be a guest's root: the fault of what was named, not of the machine. */
import { Buffer } from 'node:buffer';
import { SetupError } from '../setup-error.ts';

export class ImageError extends SetupError {
  /** `missing`: there is nothing of that name. */
  readonly why: 'missing' | 'unfit';

  constructor(message: string, remedy: string, why: 'missing' | 'unfit' = 'unfit') {
    super(message, remedy);
    this.why = why;
  }
}

/** A path of an image, whose names are bytes, for a message. */
export function formatPath(path: string): string {
  const text = Buffer.from(path, 'latin1').toString('utf8');
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
