// The admin's content security policy refuses style attributes and style elements that scripts write into the page.
// The same styles set through the style object are allowed: this is how the libraries' attributes get there.
"use strict";

const setAnyAttribute = Element.prototype.setAttribute;

Element.prototype.setAttribute = function setAttribute(name, value) {
  if (String(name).toLowerCase() === "style" && this.style) {
    this.style.cssText = value;
  } else {
    setAnyAttribute.call(this, name, value);
  }
};

if (window.htmx) {
  window.htmx.config.includeIndicatorStyles = false; // unfold shows none
  window.htmx.config.allowEval = false;
}
