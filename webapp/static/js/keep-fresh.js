// A page of which the marked parts are kept fresh, and that has no charts of its own.
import { keepFresh } from "./live.js";

keepFresh();
